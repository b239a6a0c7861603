package dlq_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
)

// TestAnEditContinuesWhatTheRetryWouldSend checks that the number follows the highest existing one,
// and that the edit applies to the content of the letter's current revision.
func TestAnEditContinuesWhatTheRetryWouldSend(t *testing.T) {
	original := dlq.Content{Payload: []byte(`{"n":1}`), Key: []byte("k"), Headers: []dlq.Header{
		{Name: "a", Value: []byte("1")}, {Name: "a", Value: []byte("2")}, {Name: "b", Value: []byte("3")},
	}}
	patch := []byte(`[{"op":"replace","path":"/n","value":2}]`)
	revisions := []dlq.Revision{
		{Number: 1, Content: dlq.Content{Payload: []byte(`{"n":10}`)}},
		{Number: 3, Content: dlq.Content{Key: []byte("other")}}, // by a request that was refused later
	}
	headers := func(all ...dlq.HeaderEdit) dlq.ContentEdit { return dlq.ContentEdit{Headers: all} }
	remove := func(name string) dlq.HeaderEdit { return dlq.HeaderEdit{Name: name, Remove: true} }
	set := func(name, value string) dlq.HeaderEdit { return dlq.HeaderEdit{Name: name, Value: []byte(value)} }
	add := func(name, value string) dlq.HeaderEdit {
		return dlq.HeaderEdit{Name: name, Value: []byte(value), Add: true}
	}
	for name, tt := range map[string]struct {
		at        int // the letter's revision
		revisions []dlq.Revision
		edit      dlq.ContentEdit
		number    int
		content   dlq.Content // of the revision
	}{
		"a payload":               {0, nil, dlq.ContentEdit{Payload: []byte("x")}, 1, dlq.Content{Payload: []byte("x")}},
		"a patch of the original": {0, nil, dlq.ContentEdit{Patch: patch}, 1, dlq.Content{Payload: []byte(`{"n":2}`)}},
		"a patch of an edit": {1, revisions, dlq.ContentEdit{Patch: []byte(`[{"op":"test","path":"/n","value":10},{"op":"add","path":"/m","value":1}]`)},
			4, dlq.Content{Payload: []byte(`{"n":10,"m":1}`)}},
		"a key after an edit": {1, revisions, dlq.ContentEdit{Key: []byte("c")}, 4,
			dlq.Content{Payload: []byte(`{"n":10}`), Key: []byte("c")}},
		"an empty key": {0, nil, dlq.ContentEdit{Key: []byte{}}, 1, dlq.Content{Key: []byte{}}},
		"a header set": {0, nil, headers(set("a", "9")), 1,
			dlq.Content{Headers: []dlq.Header{original.Headers[2], {Name: "a", Value: []byte("9")}}}},
		"headers removed": {0, nil, headers(remove("a"), remove("c")), 1,
			dlq.Content{Headers: []dlq.Header{original.Headers[2]}}},
		"one of two headers of a name": {0, nil, headers(remove("a"), add("a", "1"), add("a", "8")), 1,
			dlq.Content{Headers: []dlq.Header{original.Headers[2], original.Headers[0], {Name: "a", Value: []byte("8")}}}},
		"headers in their order": {0, nil, headers(set("c", "1"), set("c", "2"), remove("a")), 1,
			dlq.Content{Headers: []dlq.Header{original.Headers[2], {Name: "c", Value: []byte("2")}}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := dlq.Letter{Content: original, Revision: tt.at}
			r, err := l.Revised(&tt.edit, tt.revisions)
			if err != nil || r.Number != tt.number {
				t.Fatalf("revision %d, %v; want %d", r.Number, err, tt.number)
			}
			if diff := cmp.Diff(tt.content, r.Content); diff != "" {
				t.Errorf("content (-want +got):\n%s", diff)
			}
			if len(original.Headers) != 3 || string(original.Headers[0].Value) != "1" {
				t.Error("the letter's own headers were changed")
			}
		})
	}
}

func TestAnEditThatDoesNotFitIsRefused(t *testing.T) {
	var many []dlq.HeaderEdit
	for i := range dlq.MaxHeaders + 1 {
		many = append(many, dlq.HeaderEdit{Name: strconv.Itoa(i)})
	}
	for name, tt := range map[string]struct {
		edit    dlq.ContentEdit
		pointer string
	}{
		"a patch of what is not there": {dlq.ContentEdit{Patch: []byte(`[{"op":"remove","path":"/x"}]`)}, "/payload_patch/0/path"},
		"a patch that is none":         {dlq.ContentEdit{Patch: []byte(`{}`)}, "/payload_patch"},
		"too many headers":             {dlq.ContentEdit{Headers: many}, "/headers_patch"},
	} {
		l := dlq.Letter{Content: dlq.Content{Payload: []byte(`{"n":1}`)}}
		_, err := l.Revised(&tt.edit, nil)
		f := fault.As(err)
		if f == nil || f.Code != dlq.CodeInvalid || len(f.Fields) != 1 || f.Fields[0].Pointer != tt.pointer {
			t.Errorf("%s: %v, want a mistake at %s", name, err, tt.pointer)
		}
	}
}
