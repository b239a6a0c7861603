package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"

	"github.com/skald-saga/skald/api"
)

// Media types of bodies.
const (
	mediaJSON   = "application/json"
	mediaYAML   = "application/yaml"
	mediaText   = "text/plain"
	mediaNDJSON = "application/x-ndjson"
	mediaStream = "text/event-stream"
)

// answer is the success of any operation but those that send as they go. Tests
// check every answer against the contract.
type answer struct {
	status   int
	body     any    // nil: no body
	raw      []byte // JSON as it is, instead of body
	etag     string // "" none
	location string // "" none
	replayed bool   // an earlier request of this Idempotency-Key is answered again
	waited   string // the honoured Prefer, "" none
	secret   bool   // nobody may keep it
}

// maxPooled keeps one huge answer from staying in memory for ever.
const maxPooled = 64 << 10

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Write implements api.Response.
func (a answer) Write(w http.ResponseWriter) error {
	body := a.raw
	if a.body != nil {
		buf := buffers.Get().(*bytes.Buffer)
		defer func() {
			if buf.Cap() <= maxPooled {
				buf.Reset()
				buffers.Put(buf)
			}
		}()
		enc := json.NewEncoder(buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(a.body); err != nil {
			buf.Reset()
			return err
		}
		body = buf.Bytes()
	}
	h := w.Header()
	if body != nil {
		h.Set("Content-Type", mediaJSON)
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	if a.etag != "" {
		h.Set("ETag", a.etag)
	}
	if a.location != "" {
		h.Set("Location", a.location)
	}
	if a.replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	if a.waited != "" {
		h.Set("Preference-Applied", a.waited)
	}
	if a.secret {
		h.Set("Cache-Control", "no-store")
	}
	w.WriteHeader(a.status)
	if body != nil {
		_, _ = w.Write(body) // a client that left cannot be told
	}
	return nil
}

// Redacted is the answer redacted; false: a redactor cannot look into it.
func (a answer) Redacted(by redactor) (api.Response, bool) {
	ok := a.raw == nil
	if ok && a.body != nil {
		a.body, ok = by.redact(a.body)
	}
	return a, ok
}

// unchanged answers 304 when the client has the resource, else a.
func (a answer) unchanged(ifNone *string) (answer, error) {
	has, err := ifNoneMatch(ifNone, a.etag)
	if err != nil || !has {
		return a, err
	}
	return answer{status: http.StatusNotModified, etag: a.etag}, nil
}
