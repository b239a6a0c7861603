package compress

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

const asked = "gzip, deflate, br, zstd"

func ask(h http.Handler, method, encodings string) *http.Response {
	r := httptest.NewRequest(method, "/", http.NoBody)
	if encodings != "" {
		r.Header.Set("Accept-Encoding", encodings)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func content(t *testing.T, res *http.Response) string {
	t.Helper()
	var from io.Reader = res.Body
	if res.Header.Get("Content-Encoding") == "gzip" {
		zip, err := gzip.NewReader(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		from = zip
	}
	all, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

// TestWhatIsCompressed checks that only whole pages and whole JSON documents are compressed, and
// only for clients that accept it.
func TestWhatIsCompressed(t *testing.T) {
	text := strings.Repeat("the poet who keeps the sagas. ", 200)
	for _, c := range []struct {
		name, method, asks, header string
		size                       int
		zipped                     bool
	}{
		{"a page", "GET", asked, "Content-Type: text/html; charset=utf-8", len(text), true},
		{"JSON", "GET", "gzip", "Content-Type: application/json", len(text), true},
		{"a problem", "GET", "gzip;q=0.5", "Content-Type: application/problem+json", len(text), true},
		{"any encoding but one", "GET", "br, *;q=0", "Content-Type: application/json", len(text), false},
		{"not asked", "GET", "", "Content-Type: application/json", len(text), false},
		{"refused", "GET", "gzip;q=0, br", "Content-Type: application/json", len(text), false},
		{"another encoding", "GET", "br", "Content-Type: application/json", len(text), false},
		{"small", "GET", asked, "Content-Type: application/json", MinSize - 1, false},
		{"just large enough", "GET", asked, "Content-Type: application/json", MinSize, true},
		{"empty", "GET", asked, "Content-Type: application/json", 0, false},
		{"an action", "POST", asked, "Content-Type: application/json", len(text), false},
		{"the head", "HEAD", asked, "Content-Type: application/json", len(text), false},
		{"events", "GET", asked, "Content-Type: text/event-stream", len(text), false},
		{"a log", "GET", asked, "Content-Type: application/x-ndjson", len(text), false},
		{"a picture", "GET", asked, "Content-Type: image/png", len(text), false},
		{"a type that has to be guessed", "GET", asked, "X-Other: 1", len(text), false},
		{"compressed already", "GET", asked, "Content-Type: application/json\nContent-Encoding: gzip", len(text), false},
		{"a part", "GET", asked, "Content-Type: application/json\nContent-Range: bytes 0-9/10", len(text), false},
		{"a version for If-Match", "GET", asked, "Content-Type: application/json\nETag: \"7\"", len(text), false},
		{"a weak tag", "GET", asked, "Content-Type: application/json\nETag: W/\"7\"", len(text), true},
		{"a secret", "GET", asked, "Content-Type: application/json\nCache-Control: private, no-store", len(text), false},
	} {
		for _, declared := range []bool{true, false} { // with a Content-Length, and without
			h, err := New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for line := range strings.SplitSeq(c.header, "\n") {
					name, value, _ := strings.Cut(line, ": ")
					w.Header().Set(name, value)
				}
				if declared {
					w.Header().Set("Content-Length", strconv.Itoa(c.size))
				}
				w.WriteHeader(http.StatusTeapot)
				_, _ = io.WriteString(w, text[:c.size])
			}))
			if err != nil {
				t.Fatal(err)
			}
			res := ask(h, c.method, c.asks)
			zipped := c.zipped && res.Header.Get("Content-Encoding") == "gzip"
			if res.StatusCode != http.StatusTeapot || zipped != c.zipped || res.Header.Get("No-Gzip-Compression") != "" ||
				c.method == "GET" && !strings.Contains(strings.Join(res.Header.Values("Vary"), ","), "Accept-Encoding") ||
				zipped && res.Header.Get("Content-Length") != "" {
				t.Errorf("%s: %d %v", c.name, res.StatusCode, res.Header)
			}
			if c.name != "compressed already" && content(t, res) != text[:c.size] {
				t.Errorf("%s: another text", c.name)
			}
		}
	}
}

// TestStreamsAreSentAtOnce checks that flushed data reaches the client before the handler ends.
func TestStreamsAreSentAtOnce(t *testing.T) {
	next, done := make(chan struct{}), make(chan struct{})
	h, err := New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer close(done)
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "data: 1\n\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-next
	}))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	defer s.Close()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, http.NoBody)
	req.Header.Set("Accept-Encoding", asked)
	res, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got := make([]byte, 9)
	if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != "data: 1\n\n" {
		t.Errorf("%q, %v", got, err)
	}
	close(next)
	<-done
}

// TestACrowdIsServedUncompressed: while as many answers as allowed are being compressed, others are sent as they are,
// and afterwards compressed again, also after a handler has panicked.
func TestACrowdIsServedUncompressed(t *testing.T) {
	inside, leave := make(chan struct{}), make(chan struct{})
	var slow, fails bool
	h, err := limited(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, strings.Repeat("x", 2*MinSize))
		if fails {
			panic(http.ErrAbortHandler)
		}
		if slow {
			inside <- struct{}{}
			<-leave
		}
	}), 1)
	if err != nil {
		t.Fatal(err)
	}
	slow = true
	first := make(chan string)
	go func() { first <- ask(h, "GET", asked).Header.Get("Content-Encoding") }()
	<-inside
	slow = false
	if got := ask(h, "GET", asked).Header.Get("Content-Encoding"); got != "" {
		t.Errorf("the second of two at once: %q", got)
	}
	close(leave)
	if got := <-first; got != "gzip" {
		t.Errorf("the first of two at once: %q", got)
	}
	fails = true
	func() {
		defer func() { _ = recover() }()
		ask(h, "GET", asked)
	}()
	fails = false
	if got := ask(h, "GET", asked).Header.Get("Content-Encoding"); got != "gzip" {
		t.Errorf("after the others: %q", got)
	}
}

// BenchmarkPage compresses a page of 100 rows, about 60 kB.
func BenchmarkPage(b *testing.B) {
	var page strings.Builder
	for i := range 100 {
		id := strconv.Itoa(i * 7919 % 1000)
		page.WriteString(`<tr data-key="0198f3a1-` + id + `"><td><span class="badge done">✓ completed</span></td><td><a href="/ui/sagas/0198f3a1-` +
			id + `-7c5e-8d21-9a0b1c2d3e4f">order-` + id + `</a></td><td>order@3</td><td><time datetime="2026-01-02T03:04:` +
			id + `Z">4 min ago</time></td><td class="n">` + id + `</td></tr>` + "\n" + strings.Repeat("<td> </td>", 30))
	}
	for name, encodings := range map[string]string{"plain": "", "gzip": "gzip"} {
		b.Run(name, func(b *testing.B) {
			h, err := New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				_, _ = io.WriteString(w, page.String())
			}))
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(page.Len()))
			b.ReportAllocs()
			for b.Loop() {
				ask(h, "GET", encodings)
			}
		})
	}
}
