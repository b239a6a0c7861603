package participant

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"unicode"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/strictjson"
	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

const (
	maxMessage    = 1000     // in characters, as documented for saga.Outcome.Message
	maxStackTrace = 8000     // characters
	maxCauses     = 5        // depth of nested causes
	maxCut        = 16 << 10 // bytes kept of a body that is too large to keep whole
)

// messageIn returns the message in the JSON body of a refusal, from a member with one of the usual
// names, or "" if there is none.
func messageIn(body []byte) string {
	var fields struct{ Error, Message, Detail, Title any }
	if json.Unmarshal(body, &fields) != nil { // not an object
		return ""
	}
	for _, f := range []any{fields.Error, fields.Message, fields.Detail, fields.Title} {
		if s, ok := f.(string); ok {
			if s = cleaned(s); s != "" {
				return s
			}
		}
	}
	return ""
}

// whyIn returns the details of a failure from a participant's JSON body: its stack_trace, and its
// cause, which is a string or an object with a message and optionally a code, a type, a stack_trace
// and a cause of its own.
func whyIn(body []byte) (stackTrace string, cause *saga.Error) {
	var fields struct {
		StackTrace any             `json:"stack_trace"`
		Cause      json.RawMessage `json:"cause"`
	}
	if json.Unmarshal(body, &fields) != nil { // not an object
		return "", nil
	}
	return traceIn(fields.StackTrace), causeIn(fields.Cause, maxCauses)
}

func traceIn(value any) string {
	s, _ := value.(string)
	return shown(s, maxStackTrace, true)
}

// causeIn returns nil if value does not describe a cause.
func causeIn(value json.RawMessage, causes int) *saga.Error {
	if len(value) == 0 || causes == 0 {
		return nil
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		if text = cleaned(text); text == "" {
			return nil
		}
		return &saga.Error{Code: typeOfCause, Type: typeOfCause, Message: text}
	}
	var fields struct {
		Code, Type any
		StackTrace any             `json:"stack_trace"`
		Cause      json.RawMessage `json:"cause"`
	}
	e := saga.Error{Message: messageIn(value)}
	if e.Message == "" || json.Unmarshal(value, &fields) != nil {
		return nil
	}
	code, _ := fields.Code.(string)
	kind, _ := fields.Type.(string)
	e.Code, e.Type = cmp.Or(cleaned(code), typeOfCause), cmp.Or(cleaned(kind), typeOfCause)
	e.StackTrace, e.Cause = traceIn(fields.StackTrace), causeIn(fields.Cause, causes-1)
	return &e
}

// Default type and code of a cause for which the participant gives none.
const typeOfCause = "participant"

// cleaned makes external text safe to show and store, as one line of at most 1,000 characters.
func cleaned(s string) string { return shown(s, maxMessage, false) }

// shown makes external text safe to store and show, and cuts it to a number of characters. Each
// character that would control a terminal, change the writing direction or, unless lines are
// allowed, break a line is replaced by a blank.
func shown(s string, most int, lines bool) string {
	s = plaintext.Text(s, plaintext.Limit{})
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		if lines && (r == '\n' || r == '\t') {
			return r
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s))
	return strings.TrimSpace(plaintext.Text(s, plaintext.Characters(most)))
}

// nothingButCut replaces a body of which nothing can be kept.
const nothingButCut = `{"_cut":true}`

// cut returns the part worth keeping of a body that is too long or incomplete: the complete members
// of its JSON object, except long ones, and a mark. A JSON object can be redacted like any other
// body; plain text could not.
func cut(body []byte) []byte {
	kept := map[string]json.RawMessage{"_cut": json.RawMessage("true")}
	d := json.NewDecoder(bytes.NewReader(body))
	if open, err := d.Token(); err == nil && open == json.Delim('{') {
		for size := 0; d.More(); {
			name, err := d.Token()
			var value json.RawMessage
			if err != nil || d.Decode(&value) != nil {
				break
			}
			value, err = strictjson.Canonical(nil, value, strictjson.Limits{})
			if n := len(value) + len(name.(string)); err == nil && size+n <= maxCut {
				kept[name.(string)] = value
				size += n
			}
		}
	}
	b, err := json.Marshal(kept)
	if err != nil {
		return []byte(nothingButCut)
	}
	return b
}
