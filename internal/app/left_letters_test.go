package app_test

import (
	"strings"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
)

// eachOfSeveralLetters: a saga that continued has a letter for each compensation that gave up. Each
// letter is retried or resolved separately.
func (s *stranded) eachOfSeveralLetters(verb func(letter uuid.UUID, verb, body string) (int, map[string]any)) {
	t := s.t
	wide := func() (id, current, left uuid.UUID) {
		t.Helper()
		s.broken.Store(true)
		_, doc := call(t, "POST", s.url+"/api/v1/sagas?wait=4m", `{"workflow_name": "wide"}`)
		s.broken.Store(false)
		others, _ := doc["left_compensations"].([]any)
		if doc["state"] != "failed" || doc["clean"] != false || len(others) != 1 {
			t.Fatalf("the saga is %v, with %v", doc["state"], others)
		}
		other := others[0].(map[string]any)
		if doc["current_step_name"] != "a" || other["step_name"] != "c" {
			t.Fatalf("at %v, besides %v", doc["current_step_name"], other)
		}
		return uuid.MustParse(doc["saga_id"].(string)), uuid.MustParse(doc["dead_letter_id"].(string)),
			uuid.MustParse(other["dead_letter_id"].(string))
	}
	one := func(doc map[string]any) bool {
		return doc["state"] == "failed" && doc["left_compensations"] == nil && doc["dead_letter_id"] != nil
	}
	resume := func(id uuid.UUID) {
		t.Helper()
		status, doc := call(t, "POST", s.url+"/api/v1/sagas/"+id.String()+"/resume-compensation", "")
		if status != 202 {
			t.Fatalf("resume: %d %v", status, doc)
		}
	}

	id, a, c := wide()
	_, x := call(t, "GET", s.url+"/api/v1/sagas/"+id.String()+"/explain", "")
	if !strings.Contains(x["summary"].(string), `The compensation of step "c" also gave up`) {
		t.Errorf("explained: %v", x["summary"])
	}
	if status, doc := verb(c, "retry", `{"reason": "it is back"}`); status != 202 {
		t.Fatalf("retry: %d %v", status, doc)
	}
	s.ends(id, one)
	if l, o := s.letter(c), s.letter(a); l.Resolution != dlq.Confirmed || o.Status != dlq.Pending {
		t.Errorf("the letter is %s %s, the other one %s", l.Status, l.Resolution, o.Status)
	}
	if status, doc := verb(a, "retry", `{"reason": "so is this"}`); status != 202 {
		t.Fatalf("retry: %d %v", status, doc)
	}
	if doc := s.ends(id, isState("compensated")); doc["clean"] != true || s.letter(a).Resolution != dlq.Confirmed {
		t.Errorf("the saga %v, the letter %s", doc, s.letter(a).Resolution)
	}

	id, a, c = wide()
	if status, doc := verb(c, "discard", `{"reason": "no"}`); status != 409 || doc["code"] != dlq.CodeSagaWaits {
		t.Errorf("discard while the saga waits: %d %v", status, doc)
	}
	if status, doc := verb(c, "resolve", `{"reason": "by hand"}`); status != 200 || doc["resolution"] != "MANUAL" {
		t.Fatalf("resolve: %d %v", status, doc)
	}
	s.ends(id, one)
	if l := s.letter(a); l.Status != dlq.Pending {
		t.Errorf("the other letter is %s", l.Status)
	}
	resume(id)
	s.ends(id, isState("compensated"))

	id, a, c = wide()
	resume(id) // both
	if doc := s.ends(id, isState("compensated")); doc["clean"] != true || s.letter(a).Status != dlq.Resolved ||
		s.letter(c).Status != dlq.Resolved {
		t.Errorf("the saga %v, the letters %s and %s", doc, s.letter(a).Status, s.letter(c).Status)
	}
}
