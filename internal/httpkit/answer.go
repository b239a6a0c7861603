package httpkit

import (
	"cmp"
	"net/http"
	"strconv"

	"github.com/skald-saga/skald/api"
)

// Media types of bodies.
const (
	MediaJSON   = "application/json"
	MediaYAML   = "application/yaml"
	MediaText   = "text/plain"
	MediaXML    = "application/xml"
	MediaNDJSON = "application/x-ndjson"
	MediaStream = "text/event-stream"
)

// NotStored is the Cache-Control value of responses that must not be cached.
const NotStored = "no-store"

// Answer is the successful response of any operation that does not stream. Tests check every answer
// against the contract.
type Answer struct {
	Status   int
	Body     any    // nil: no body
	Raw      []byte // sent unchanged, instead of Body
	Media    string // media type of Raw; "": JSON
	ETag     string // "": none
	Location string // "": none
	Replayed bool   // this repeats the answer to an earlier request with this Idempotency-Key
	Waited   string // the preference that was honored; "": none
	Cookie   string // cookie to set; "": none
	Secret   bool   // caches must not store the answer
}

// Write implements api.Response.
func (a Answer) Write(w http.ResponseWriter) error {
	body := a.Raw
	if a.Body != nil {
		var err error
		if body, err = api.Encode(a.Body); err != nil {
			return err
		}
	}
	h := w.Header()
	if body != nil {
		h.Set("Content-Type", cmp.Or(a.Media, MediaJSON))
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
	if a.Cookie != "" {
		h.Set("Set-Cookie", a.Cookie)
	}
	if a.Secret {
		h.Set("Cache-Control", NotStored)
	}
	w.WriteHeader(a.Status)
	if body != nil {
		_, _ = w.Write(body) // an error means that the client has disconnected
	}
	return nil
}

// Redacted returns the answer, redacted by by. It returns false if the body cannot be redacted.
func (a Answer) Redacted(by Redactor) (api.Response, bool) {
	ok := a.Raw == nil
	if ok && a.Body != nil {
		a.Body, ok = by.Redact(a.Body)
	}
	return a, ok
}

// Unchanged returns a 304 if the client already has this version, otherwise a.
func (a Answer) Unchanged(ifNone *string) (Answer, error) {
	has, err := ifNoneMatch(ifNone, a.ETag)
	if err != nil || !has {
		return a, err
	}
	return Answer{Status: http.StatusNotModified, ETag: a.ETag}, nil
}
