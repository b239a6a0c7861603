package sagaapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func TestANoteIsWrittenBesideASagaWhoseStepIsBeingCalled(t *testing.T) {
	e := apitest.NewEdge(t)
	at, g := apitest.Held(t, e, nil)
	if tag := e.Send("GET", at, "").Header.Get("ETag"); tag != `"1"` {
		t.Fatalf("without a note the ETag is %s", tag)
	}
	e.Send("PATCH", at, `{"assignee":"ann"}`).Wants(http.StatusPreconditionRequired, "REQ_IF_MATCH_REQUIRED")
	var s client.Saga
	r := e.Send("PATCH", at, `{"assignee":"ann","note":"asked the bank ☃","reason":"ticket 7"}`, "If-Match", `"1"`)
	r.Reads(http.StatusOK, &s)
	if tag := r.Header.Get("ETag"); tag != `"1-noted-1"` || *s.Assignee != "ann" || *s.Note != "asked the bank ☃" ||
		s.Version != 1 {
		t.Fatalf("ETag %s, %s", tag, r.Body)
	}
	e.Send("PATCH", at, `{"note":""}`, "If-Match", `"1"`).Wants(http.StatusPreconditionFailed, "SAGA_VERSION_CONFLICT")
	// The step that was being called when the note was written is stored, and the note is kept.
	close(g.Open)
	if s = e.Saga(at + "?wait=5s"); s.State != client.SagaStateCompleted || *s.Assignee != "ann" || s.Note == nil {
		t.Fatalf("ended %s, assignee %v", s.State, s.Assignee)
	}
	// The saga has changed, but the note has not: the previous tag still matches the note.
	r = e.Send("PATCH", at, `{"note":""}`, "If-Match", `"1-noted-1"`)
	s = client.Saga{}
	r.Reads(http.StatusOK, &s)
	if tag := r.Header.Get("ETag"); !strings.HasSuffix(tag, `-noted-2"`) || *s.Assignee != "ann" || s.Note != nil {
		t.Errorf("ETag %s, %s", tag, r.Body)
	}
	again := e.Send("PATCH", at, `{"assignee":"ann"}`, "If-Match", "*")
	if again.Status != http.StatusOK || again.Header.Get("ETag") != r.Header.Get("ETag") {
		t.Errorf("nothing to change: %d, ETag %s", again.Status, again.Header.Get("ETag"))
	}
	if r := e.Send("GET", at, "", "If-None-Match", again.Header.Get("ETag")); r.Status != http.StatusNotModified {
		t.Errorf("the saga with its note has changed: %d", r.Status)
	}
	if r := e.Send("GET", at+"?view=basic", ""); r.Header.Get("ETag") != again.Header.Get("ETag") {
		t.Errorf("the basic view shows the note, and its ETag is %s", r.Header.Get("ETag"))
	}
	var list client.SagaList
	e.Send("GET", apitest.SagasPath+"?assignee=ann", "").Reads(http.StatusOK, &list)
	if len(list.Sagas) != 1 || *list.Sagas[0].Assignee != "ann" {
		t.Errorf("listed: %+v", list.Sagas)
	}
	e.Send("GET", apitest.SagasPath+"?assignee=bob", "").Reads(http.StatusOK, &list)
	if len(list.Sagas) != 0 {
		t.Errorf("listed for somebody else: %+v", list.Sagas)
	}
}

// An action is refused if the saga has changed, but not if only a note was written.
func TestAnActionTakesTheTagOfASagaWithANote(t *testing.T) {
	e := apitest.NewEdge(t)
	at, g := apitest.Held(t, e, nil)
	defer close(g.Open)
	e.Send("PATCH", at, `{"note":"n"}`, "If-Match", `"1"`).Reads(http.StatusOK, &client.Saga{})
	e.Send("POST", at+"/cancel", "", "If-Match", `"2-noted-1"`).
		Wants(http.StatusPreconditionFailed, "SAGA_VERSION_CONFLICT")
	r := e.Send("POST", at+"/cancel", "", "If-Match", `"9-noted-4", "1-noted-7"`)
	if r.Status != http.StatusAccepted || r.Header.Get("ETag") != `"2-noted-1"` {
		t.Errorf("%d, ETag %s: %s", r.Status, r.Header.Get("ETag"), r.Body)
	}
}

func TestMalformedNotesAreRefused(t *testing.T) {
	e := apitest.NewEdge(t)
	at, g := apitest.Held(t, e, nil)
	defer close(g.Open)
	for _, body := range []string{
		`{}`, `{"reason":"only that"}`, `{"assignee":null}`, `{"assignee":7}`,
		`{"note":"` + strings.Repeat("x", 2001) + `"}`,
		`{"assignee":"` + strings.Repeat("x", 256) + `"}`,
		`{"state":"completed"}`,
	} {
		if r := e.Send("PATCH", at, body, "If-Match", `"1"`); r.Status != http.StatusBadRequest &&
			r.Status != http.StatusUnprocessableEntity {
			t.Errorf("%.40s: %d %s", body, r.Status, r.Body)
		}
	}
	e.Send("PATCH", at, `{"note":"n"}`, "If-Match", `1`).Wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
	e.Send("PATCH", apitest.SagasPath+"/"+uuid.NewString(), `{"note":"n"}`, "If-Match", "*").
		Wants(http.StatusNotFound, "SAGA_NOT_FOUND")
}
