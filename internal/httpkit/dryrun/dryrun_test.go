package dryrun

import (
	"fmt"
	"reflect"
	"testing"
)

func TestChangesOfManyThingsAreCounted(t *testing.T) {
	var one List
	one.Differs("state", "failed", "compensating")
	one.Differs("order", "retry", "retry")
	if want := (List{{Member: "state", From: "failed", To: "compensating"}}); !reflect.DeepEqual(one, want) {
		t.Fatalf("of one: %v", one)
	}
	m := Many{Of: "saga"}
	if got := m.List(); got == nil || len(got) != 0 {
		t.Fatalf("of none: %v", got)
	}
	m.Add(one, 1)
	m.Add(List{{Member: "next_run_at", From: "2026-11-26T12:00:00Z"}}, 1)
	m.Add(List{{Member: "next_run_at", From: "2026-11-26T11:00:00Z"}}, 1)
	m.Add(List{{Member: "state", From: "pending", To: "cancelled"}}, 4)
	m.Add(List{{Member: "state", From: "running", To: "cancelled"}}, 0)
	want := List{
		{"saga", "state", "pending", "cancelled", 4},
		{"saga", "next_run_at", "2026-11-26T11:00:00Z", "", 2},
		{"saga", "state", "failed", "compensating", 1},
	}
	if got := m.List(); !reflect.DeepEqual(got, want) {
		t.Errorf("of many: %v, want %v", got, want)
	}
	for i := range 2 * Most {
		m.Add(List{{Member: "attention_reason", From: fmt.Sprint("reason ", i)}}, 1)
	}
	if got := m.List(); len(got) != Most || got[0] != want[0] {
		t.Errorf("of very many: %d, the first is %v", len(got), got[0])
	}
}

func TestWhatDiffersBetweenTwoStates(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{`{}`, `{}`, `[]`},
		{`{"state":"RUNNING","version":1,"links":{"a":"b"}}`, `{"state":"CANCELED","version":2,"links":{}}`,
			`[{ state RUNNING CANCELED 0}]`},
		{`{"rate":5,"note":null}`, `{"rate":5.5,"note":"text"}`, `[{ note  text 0} { rate 5 5.5 0}]`},
		{`{"stop_on":{"failures":3,"ratio":1}}`, `{"stop_on":{"ratio":1}}`, `[{ stop_on.failures 3  0}]`},
		{`{"labels":["a", "b"],"n":9007199254740993}`, `{"labels":["a","b"],"n":9007199254740995}`,
			`[{ n 9007199254740993 9007199254740995 0}]`},
		{`{"enabled":true}`, `{"enabled":false}`, `[{ enabled true false 0}]`},
	} {
		all, err := Between([]byte(c.before), []byte(c.after))
		if got := fmt.Sprint(all); err != nil || got != c.want {
			t.Errorf("%s to %s: %s, %v; want %s", c.before, c.after, got, err, c.want)
		}
	}
	if _, err := Between([]byte(`{"a":`), []byte(`{}`)); err == nil {
		t.Error("half a document is none")
	}
}
