package letterpages

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/skald-saga/skald/api/client"
)

// TestRevisionsSayWhatAnEditHasChanged checks that parts not changed by an edit are taken from the
// original, and are not shown as removed.
func TestRevisionsSayWhatAnEditHasChanged(t *testing.T) {
	t.Parallel()
	enc := client.DeadLetterEncoding("json")
	letter := &client.DeadLetter{
		Payload: json.RawMessage(`{"n":1}`), PayloadEncoding: &enc, Key: new("k"),
		Headers: []client.DeadLetterHeader{{Name: "a", Value: new("1")}, {Name: "b", Value: new("2")}},
	}
	payload := client.DeadLetterRevision{Payload: json.RawMessage(`{"n":2}`), PayloadEncoding: &enc}
	headers := client.DeadLetterRevision{Headers: []client.DeadLetterHeader{{Name: "a", Value: new("1")}}}
	none := client.DeadLetterRevision{Headers: []client.DeadLetterHeader{}}
	key := client.DeadLetterRevision{Key: new("other")}
	binary := client.DeadLetterEncoding("binary")
	bytes := client.DeadLetterRevision{PayloadBase64: new("AA=="), PayloadEncoding: &binary}
	for _, tt := range []struct {
		name  string
		edits []client.DeadLetterRevision
		want  string // of the newest: changes of the payload, headers, key, replaced as a whole
	}{
		{"the payload", []client.DeadLetterRevision{payload}, "1 [] false false"},
		{"the payload, twice", []client.DeadLetterRevision{payload, payload}, "0 [] false false"},
		{"a header", []client.DeadLetterRevision{headers}, "0 [without b: 2] false false"},
		{"all headers", []client.DeadLetterRevision{none}, "0 [without a: 1 without b: 2] false false"},
		{"all headers, which come back", []client.DeadLetterRevision{none, payload}, "1 [with a: 1 with b: 2] false false"},
		{"the key", []client.DeadLetterRevision{key}, "0 [] true false"},
		{"bytes in place of JSON", []client.DeadLetterRevision{bytes}, "0 [] false true"},
		{"the same bytes", []client.DeadLetterRevision{bytes, bytes}, "0 [] false false"},
	} {
		shown := revisionsShown(letter, slices.Clone(tt.edits))[0]
		got := fmt.Sprintf("%d %v %v %v", len(shown.Changes), shown.Headers, shown.Key != nil, shown.Whole)
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	for name, r := range map[string]client.DeadLetterRevision{"payload": payload, "key": key} {
		if got := sentBy(letter, r); len(got.Headers) != 2 || got.Payload == nil || got.Key == nil {
			t.Errorf("a retry after an edit of the %s sends %+v", name, got)
		}
	}
	if got := sentBy(letter, none); len(got.Headers) != 0 {
		t.Errorf("headers that were removed are sent: %v", got.Headers)
	}
}
