// Package compress compresses pages and JSON with gzip for clients that accept it.
//
// It compresses answers to GET with HTML or JSON of at least MinSize bytes. Streams, files and
// compressed content pass through unchanged, and so do two kinds of answers. The first are answers
// with a strong entity tag: clients send the tag back in If-Match, where it must be the tag of the
// resource and not of one of its encodings. The second are answers that must not be stored: they
// contain a secret, which could be guessed from the length of compressed answers (BREACH).
package compress

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"

	"github.com/klauspost/compress/gzhttp"
)

// MinSize is the size below which an answer is sent uncompressed, because it fits into one packet anyway.
const MinSize = 1 << 10

// level is the fastest level: a list of 58 kB takes 0.25 ms and shrinks to 6.4 kB. Level 6 takes
// 0.58 ms and yields 5.9 kB.
const level = 1

// handler compresses the answers of another handler.
type handler struct {
	plain, zipped http.Handler
	// busy limits the number of concurrent compressions to the number of processors. When it is
	// full, answers are sent uncompressed, so that many concurrent requests cost bandwidth instead
	// of CPU time that sagas need.
	busy chan struct{}
}

// New returns a handler that compresses the answers of next.
func New(next http.Handler) (http.Handler, error) { return limited(next, runtime.GOMAXPROCS(0)) }

func limited(next http.Handler, most int) (http.Handler, error) {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(MinSize), gzhttp.CompressionLevel(level), gzhttp.EnableZstd(false),
		gzhttp.SetContentType(false), gzhttp.ContentTypeFilter(suitable))
	if err != nil {
		return nil, fmt.Errorf("compress responses: %w", err)
	}
	h := &handler{plain: next, busy: make(chan struct{}, most)}
	h.zipped = wrap(http.HandlerFunc(h.watch))
	return h, nil
}

// ServeHTTP implements http.Handler. Requests that make changes bypass compression because their
// answers are small.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		h.zipped.ServeHTTP(w, r)
		return
	}
	h.plain.ServeHTTP(w, r)
}

// watch serves a request whose answer may be compressed.
func (h *handler) watch(w http.ResponseWriter, r *http.Request) {
	out := &response{ResponseWriter: w, busy: h.busy}
	defer out.release()
	h.plain.ServeHTTP(out, r)
}

// suitable reports whether answers of a content type are compressed.
func suitable(media string) bool {
	media, _, _ = strings.Cut(media, ";")
	switch media {
	case "text/html", "application/json", "application/problem+json":
		return true
	}
	return false
}

// response decides whether it may be compressed once its header is complete.
type response struct {
	http.ResponseWriter
	busy    chan struct{}
	decided bool
	holds   bool // it holds a slot in busy
}

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.decide()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *response) Write(b []byte) (int, error) {
	w.decide()
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *response) decide() {
	if w.decided {
		return
	}
	w.decided = true
	h := w.Header()
	if suitable(h.Get("Content-Type")) && !strings.HasPrefix(h.Get("ETag"), `"`) &&
		!strings.Contains(h.Get("Cache-Control"), "no-store") {
		select {
		case w.busy <- struct{}{}:
			w.holds = true
			return
		default:
		}
	}
	h.Set(gzhttp.HeaderNoCompression, "1") // this header is not sent
}

func (w *response) release() {
	if w.holds {
		<-w.busy
	}
}
