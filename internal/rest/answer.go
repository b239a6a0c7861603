package rest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/skald-saga/skald/api"
)

// Media types of bodies.
const (
	MediaJSON   = "application/json"
	MediaYAML   = "application/yaml"
	MediaText   = "text/plain"
	MediaNDJSON = "application/x-ndjson"
	MediaStream = "text/event-stream"
)

// Answer is the success of any operation but those that send as they go. Tests
// check every answer against the contract.
type Answer struct {
	Status   int
	Body     any    // nil: no body
	Raw      []byte // JSON as it is, instead of body
	ETag     string // "" none
	Location string // "" none
	Replayed bool   // an earlier request of this Idempotency-Key is answered again
	Waited   string // the honoured Prefer, "" none
	Secret   bool   // nobody may keep it
}

// Write implements api.Response.
func (a Answer) Write(w http.ResponseWriter) error {
	body := a.Raw
	if a.Body != nil {
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(a.Body); err != nil {
			return err
		}
		body = buf.Bytes()
	}
	h := w.Header()
	if body != nil {
		h.Set("Content-Type", MediaJSON)
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	if a.ETag != "" {
		h.Set("ETag", a.ETag)
	}
	if a.Location != "" {
		h.Set("Location", a.Location)
	}
	if a.Replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	if a.Waited != "" {
		h.Set("Preference-Applied", a.Waited)
	}
	if a.Secret {
		h.Set("Cache-Control", "no-store")
	}
	w.WriteHeader(a.Status)
	if body != nil {
		_, _ = w.Write(body) // a client that left cannot be told
	}
	return nil
}

// Redacted is the answer redacted; false: a redactor cannot look into it.
func (a Answer) Redacted(by Redactor) (api.Response, bool) {
	ok := a.Raw == nil
	if ok && a.Body != nil {
		a.Body, ok = by.Redact(a.Body)
	}
	return a, ok
}

// Unchanged answers 304 when the client has the resource, else a.
func (a Answer) Unchanged(ifNone *string) (Answer, error) {
	has, err := ifNoneMatch(ifNone, a.ETag)
	if err != nil || !has {
		return a, err
	}
	return Answer{Status: http.StatusNotModified, ETag: a.ETag}, nil
}
