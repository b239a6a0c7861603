package dlq

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/skald-saga/skald/internal/fault"
)

// ContentEdit contains a retry's changes to the content that it would otherwise send. Nil members
// change nothing.
type ContentEdit struct {
	Payload []byte
	Patch   json.RawMessage // a JSON Patch (RFC 6902) to apply to the payload, instead of Payload
	Key     []byte
	Headers []HeaderEdit // applied in order
}

// HeaderEdit sets a header, replacing all headers with the same name, removes them, or appends
// another one.
type HeaderEdit struct {
	Name        string
	Value       []byte
	Remove, Add bool
}

// Empty reports whether an edit changes nothing.
func (e *ContentEdit) Empty() bool {
	return e.Payload == nil && e.Patch == nil && e.Key == nil && len(e.Headers) == 0
}

// Editable reports whether the content of a letter can be edited. Other letters are sent again by
// their source.
func (l *Letter) Editable() bool {
	return l.Target.Kind == ToKafka || l.Target.Kind == ToHTTP || l.Target.Kind == ToJobRun
}

// AtRevision returns the content of the letter's current revision, which a retry sends. It is empty
// if the original is sent.
func (l *Letter) AtRevision(revisions []Revision) Content {
	if i := slices.IndexFunc(revisions, func(r Revision) bool { return r.Number == l.Revision }); i >= 0 {
		return revisions[i].Content
	}
	return Content{}
}

// Revised returns the next revision of a letter that has these revisions: the edit applied to the
// content that a retry would otherwise send. The caller sets author, reason and time. Fault:
// Invalid, with pointers below /payload_patch and to /headers_patch.
func (l *Letter) Revised(e *ContentEdit, revisions []Revision) (Revision, error) {
	r := Revision{LetterID: l.ID, Number: 1, Content: l.AtRevision(revisions), Patch: e.Patch}
	for i := range revisions {
		r.Number = max(r.Number, revisions[i].Number+1)
	}
	sent := l.Content.With(r.Content)
	var err error
	switch {
	case e.Payload != nil:
		r.Content.Payload = e.Payload
	case e.Patch != nil:
		if r.Content.Payload, err = Patched(sent.Payload, e.Patch); err != nil {
			return Revision{}, inPatch(err)
		}
	}
	if e.Key != nil {
		r.Content.Key = e.Key
	}
	if len(e.Headers) > 0 {
		r.Content.Headers = withHeaders(sent.Headers, e.Headers)
		if len(r.Content.Headers) > MaxHeaders {
			return Revision{}, invalid("/headers_patch", "too_many", fmt.Sprintf("results in more than %d headers", MaxHeaders))
		}
	}
	return r, nil
}

// inPatch makes the pointers in a fault of Patched relative to the edit.
func inPatch(err error) error {
	var wrong fault.Mistakes
	if wrong.Within("/payload_patch", err); wrong == nil {
		return err
	}
	return invalid(wrong[0].Pointer, wrong[0].Code, wrong[0].Message).Because(err).With(wrong[1:]...)
}

// withHeaders returns headers with changes applied in order.
func withHeaders(headers []Header, edits []HeaderEdit) []Header {
	out := append([]Header{}, headers...)
	for _, e := range edits {
		if !e.Add {
			out = slices.DeleteFunc(out, func(h Header) bool { return h.Name == e.Name })
		}
		if !e.Remove {
			out = append(out, Header{Name: e.Name, Value: e.Value})
		}
	}
	return out
}
