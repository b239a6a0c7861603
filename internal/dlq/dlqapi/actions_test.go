package dlqapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func TestPatchChangesNotesAndNeverContent(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := q.push(q.toTarget(`"payload":1`))
	next := time.Now().UTC().Add(time.Hour).Truncate(time.Microsecond)
	r, err := q.UpdateDeadLetterWithResponse(t.Context(), l.ID, &client.UpdateDeadLetterParams{IfMatch: new(`"1"`)},
		client.DeadLetterPatch{
			MaxRetries: new(int32(5)), NextRetryAt: &next, Labels: []string{"z", "a", "z"}, Assignee: new("ann"),
			Note: new("looks bad"), Reason: new("triage"),
		})
	if err != nil || r.JSON200 == nil {
		t.Fatalf("%v %s", err, r.Body)
	}
	got := *r.JSON200
	want := got
	want.MaxRetries, want.NextRetryAt, want.Labels = 5, &next, []string{"a", "z"}
	want.Assignee, want.Note, want.Version, want.Payload = new("ann"), new("looks bad"), 2, client.AnyJSON("1")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("patched (-want +got):\n%s", diff)
	}
	if kept := q.Send("GET", at(l), "").Letter(200); !cmp.Equal(kept, got) {
		t.Errorf("(-answered +kept):\n%s", cmp.Diff(got, kept))
	}
	if cleared := q.Send("PATCH", at(l), `{"labels":[],"assignee":"","note":""}`).Letter(200); len(cleared.Labels) > 0 || cleared.Assignee != nil ||
		cleared.Note != nil || cleared.MaxRetries != 5 {
		t.Errorf("%+v", cleared)
	}
	for _, body := range []string{`{}`, `{"payload":1}`, `{"status":"DEAD"}`, `{"labels":[""]}`, `{"max_retries":-1}`,
		`{"reason":"only"}`, `{"next_retry_at":"0001-01-01T00:00:00Z"}`, `null`} {
		q.Send("PATCH", at(l), body).Wants(422, "REQ_SCHEMA")
	}
	q.target.answer(500)
	q.Send("POST", at(l)+"/retry", "").Wants(502, "DLQ_PROCESS_FAILED")
	q.Send("PATCH", at(l), `{"max_retries":1}`).Wants(422, "DLQ_INVALID")
	p := q.Send("PATCH", at(l), `{"note":"x"}`, "If-Match", `"1"`).Wants(412, "DLQ_VERSION_CONFLICT")
	if p.Current == nil || p.Current.Version < 4 {
		t.Errorf("stale: %+v", p.Current)
	}
	q.Send("PATCH", at(l), `{"note":"x"}`, "If-Match", "1").Wants(400, "REQ_INVALID_PARAMETER")
	blind, err := q.UpdateDeadLetterWithResponse(t.Context(), l.ID, nil, client.DeadLetterPatch{Note: new("mine")})
	if p := blind.ApplicationProblemJSON428; err != nil || p == nil || p.Code != "REQ_IF_MATCH_REQUIRED" ||
		!strings.Contains(p.Detail, "GET /api/v1/dlq/messages/{message_id}") {
		t.Errorf("without If-Match: %v %s", err, blind.Body)
	}
	for _, body := range []string{"", `{}`, `{"reason":""}`, `{"reason":" \n"}`, `{"force":true}`} {
		if p := q.Send("POST", at(l)+"/discard", body).Wants(422, "REQ_SCHEMA"); len(p.Errors) != 1 ||
			p.Errors[0].Pointer != "/reason" {
			t.Errorf("discard with %q: %+v", body, p.Errors)
		}
	}
	dead := q.Send("POST", at(l)+"/discard", `{"reason":"r"}`).Letter(200)
	q.Send("PATCH", at(l), `{"next_retry_at":"2030-01-01T00:00:00Z"}`, "If-Match", quoted(itoa(dead.Version))).Wants(409, "DLQ_CONFLICT")
}

func itoa(n int64) string {
	b, _ := json.Marshal(n)
	return string(b)
}

func TestOperatorsMoveLetters(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := q.push(q.toTarget(`"max_retries":1`))
	act := func(verb, body string) client.DeadLetter {
		t.Helper()
		r := q.Send("POST", at(l)+"/"+verb, body)
		got := r.Letter(http.StatusOK)
		if r.Header.Get("ETag") != quoted(itoa(got.Version)) {
			t.Errorf("%s: ETag %s of version %d", verb, r.Header.Get("ETag"), got.Version)
		}
		return got
	}
	refuse := func(verb, body string) {
		t.Helper()
		p := q.Send("POST", at(l)+"/"+verb, body).Wants(409, "DLQ_CONFLICT")
		if p.Current == nil || p.Current.Version == 0 || p.AllowedActions == nil && verb != "ack" {
			t.Errorf("%s: %+v", verb, p)
		}
	}
	refuse("requeue", "")
	refuse("ack", `{"generation":0,"outcome":"PROCESSED"}`)
	if d := act("discard", `{"reason":"not worth it"}`); d.Status != client.DeadLetterStatusDEAD ||
		*d.Resolution != client.DeadLetterResolutionDISCARDED || d.TerminalAt == nil {
		t.Errorf("discarded: %+v", d)
	}
	refuse("discard", `{"reason":"r"}`)
	if r := act("requeue", `{"reset_retry_count":true,"max_retries":4}`); r.Status != client.DeadLetterStatusPENDING || r.MaxRetries != 4 || r.RetryCount != 0 ||
		r.Resolution != nil {
		t.Errorf("requeued: %+v", r)
	}
	retried := q.Send("POST", at(l)+"/retry", "")
	if retried.Status != 200 {
		t.Fatalf("%d %s", retried.Status, retried.Body)
	}
	refuse("resolve", "")
	refuse("ack", `{"generation":1,"outcome":"PROCESSED"}`)
	if a := act("ack", `{"generation":0,"outcome":"FAILED"}`); a.Status != client.DeadLetterStatusPENDING || a.RetryCount != 1 {
		t.Errorf("refuted: %+v", a)
	}
	if r := q.Send("POST", at(l)+"/retry", ""); r.Status != 200 {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	confirmed := act("ack", `{"generation":0,"outcome":"PROCESSED"}`)
	if *confirmed.Resolution != client.DeadLetterResolutionCONFIRMED {
		t.Errorf("confirmed: %+v", confirmed)
	}
	if again := act("ack", `{"generation":0,"outcome":"PROCESSED"}`); again.Version != confirmed.Version {
		t.Errorf("confirmed twice: version %d after %d", again.Version, confirmed.Version)
	}
	refuse("ack", `{"generation":0,"outcome":"FAILED"}`)
	for _, body := range []string{"{}", `{"generation":-1,"outcome":"FAILED"}`, `{"generation":0,"outcome":"MAYBE"}`} {
		q.Send("POST", at(l)+"/ack", body).Wants(422, "REQ_SCHEMA")
	}
	q.audited(l.ID, "push", "discard not worth it", "requeue", "retry", "ack", "retry", "ack")
	l = q.push(q.toTarget(""))
	if r := act("resolve", `{"reason":"booked by hand"}`); r.Status != client.DeadLetterStatusRESOLVED ||
		*r.Resolution != client.DeadLetterResolutionMANUAL {
		t.Errorf("resolved: %+v", r)
	}
	for _, verb := range []string{"retry", "requeue", "discard", "resolve"} {
		q.Send("POST", at(l)+"/"+verb, `{"reason":"r"}`, "If-Match", `"1"`).Wants(412, "DLQ_VERSION_CONFLICT")
		refuse(verb, `{"reason":"r"}`)
		q.Send("POST", at(l)+"/"+verb, `{"colour":1}`).Wants(422, "REQ_SCHEMA")
	}
	for _, query := range []string{"", "?force=true", "?reason=", "?reason=%20%09",
		"?reason=" + strings.Repeat("x", 501)} {
		if p := q.Send("DELETE", at(l)+query, "").Wants(422, "REQ_SCHEMA"); len(p.Errors) != 1 ||
			p.Errors[0].Parameter != "reason" {
			t.Errorf("DELETE with %q: %+v", query, p.Errors)
		}
	}
	q.Send("DELETE", at(l)+"?force=maybe", "").Wants(400, "REQ_INVALID_PARAMETER")
	q.Send("DELETE", at(l)+"?reason=GDPR", "", "If-Match", `"1"`).Wants(412, "DLQ_VERSION_CONFLICT")
	gone, err := q.DeleteDeadLetterWithResponse(t.Context(), l.ID, &client.DeleteDeadLetterParams{Reason: "GDPR"})
	if err != nil || gone.JSON200 == nil || gone.JSON200.ID != l.ID {
		t.Fatalf("%v %s", err, gone.Body)
	}
	q.Send("GET", at(l), "").Wants(404, "DLQ_NOT_FOUND")
	q.Send("DELETE", at(l)+"?reason=r", "").Wants(404, "DLQ_NOT_FOUND")
	q.audited(l.ID, "push", "resolve booked by hand", "delete GDPR")
}

// audited checks the verbs and reasons of the recorded actions on a letter, oldest first.
func (q *queue) audited(id uuid.UUID, want ...string) {
	q.T.Helper()
	found, err := q.actions.Actions(q.T.Context(), apitest.Tenant.ID, operator.Filter{Kind: operator.DeadLetter,
		Subject: id.String(), ByTime: page.ByTime{Limit: 200}})
	if err != nil {
		q.T.Fatal(err)
	}
	var got []string
	for _, a := range slices.Backward(found.Items) {
		got = append(got, strings.TrimSpace(a.Verb+" "+a.Reason))
		if a.Actor == "" || a.RequestID == "" {
			q.T.Errorf("%+v", a)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		q.T.Errorf("actions (-want +got):\n%s", diff)
	}
}

// meanwhile changes a letter just before a change is stored, the first few times.
type meanwhile struct {
	dlq.Letters
	times int
}

func (m *meanwhile) Change(ctx context.Context, l dlq.Letter, by operator.Action) error {
	if m.times--; m.times >= 0 {
		now, err := m.Get(ctx, l.TenantID, l.ID)
		if err != nil {
			return err
		}
		c, err := dlq.Apply(now, dlq.EditRequested{Edit: dlq.Edit{Assignee: new("bob")}}, dlq.Moment{Now: time.Now().UTC()})
		if err != nil {
			return err
		}
		other := c.After
		if err := m.Letters.Change(ctx, other, operator.Action{ID: uuid.New(), TenantID: l.TenantID, At: time.Now(),
			Kind: operator.DeadLetter, Subject: l.ID.String(), Verb: "update", Actor: "bob", RequestID: "r"}); err != nil {
			return err
		}
	}
	return m.Letters.Change(ctx, l, by)
}

func TestAChangeThatMeetsAConcurrentOneIsDecidedAgain(t *testing.T) {
	t.Parallel()
	race := &meanwhile{times: 2}
	q := newQueue(t, func(c *httpapi.Config) { race.Letters, c.DeadLetters.Letters = c.DeadLetters.Letters, race })
	l := q.push(q.toTarget(""))
	if got := q.Send("PATCH", at(l), `{"note":"mine"}`).Letter(200); got.Version != 4 || *got.Note != "mine" ||
		*got.Assignee != "bob" {
		t.Errorf("%+v", got)
	}
	race.times = 1
	if got := q.Send("POST", at(l)+"/discard", `{"reason":"r"}`).Letter(200); got.Version != 6 ||
		got.Status != client.DeadLetterStatusDEAD {
		t.Errorf("%+v", got)
	}
	race.times = 1
	q.Send("PATCH", at(l), `{"note":"other"}`, "If-Match", `"6"`).Wants(412, "DLQ_VERSION_CONFLICT")
	race.times = 1000
	if r := q.Send("PATCH", at(l), `{"note":"other"}`); r.Wants(409, "REQ_KEEPS_CHANGING").Detail == "" ||
		r.Header.Get("Retry-After") != "1" {
		t.Errorf("%v %s", r.Header, r.Body)
	}
}

func TestAnOlderLetterOfTheKeyGoesFirst(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.policy.Ordered = true
	first := q.push(q.toTarget(`"key":"k"`))
	other := q.push(q.toTarget(`"key":"other"`))
	second := q.push(q.toTarget(`"key":"k"`))
	p := q.Send("POST", at(second)+"/retry", "").Wants(409, "DLQ_KEY_BLOCKED")
	if !second.Ordered || !strings.Contains(p.Detail, first.ID.String()) || p.Current == nil {
		t.Errorf("%+v", p)
	}
	for _, l := range []client.DeadLetter{other, first, second} {
		if r := q.Send("POST", at(l)+"/retry", ""); r.Status != 200 {
			t.Errorf("%d %s", r.Status, r.Body)
		}
	}
}

func TestALetterThatASagaWaitsForIsNotDiscardedByAccident(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	waiting := func() client.DeadLetter {
		return q.store(dlq.Letter{
			Source: dlq.FromSaga, Target: dlq.Target{Kind: dlq.ToSaga}, Link: dlq.Link{SagaID: uuid.New(), StepIndex: 2,
				StepName: "pay", Action: "COMPENSATE"},
		})
	}
	l := waiting()
	got := q.Send("GET", at(l), "").Letter(200)
	want := got
	want.Source, want.StepIndex, want.StepName = client.DeadLetterSourceSAGA, new(2), new("pay")
	want.StepAction, want.Target.Kind = new(client.StepActionCOMPENSATE), client.DeadLetterTargetKindSagaStep
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the letter (-want +got):\n%s", diff)
	}
	for _, op := range [][]string{{"POST", at(l) + "/discard", `{"reason":"r"}`}, {"DELETE", at(l) + "?reason=r", ""}} {
		p := q.Send(op[0], op[1], op[2]).Wants(409, "DLQ_SAGA_WAITS")
		if p.Current == nil || !strings.Contains(p.Detail, got.SagaID.String()) {
			t.Errorf("%v: %+v", op, p)
		}
	}
	if d := q.Send("POST", at(l)+"/discard",
		`{"force":true,"reason":"r"}`).Letter(200); *d.Resolution != client.DeadLetterResolutionDISCARDED {
		t.Errorf("forced: %+v", d)
	}
	q.Send("DELETE", at(l)+"?reason=r", "").Wants(409, "DLQ_SAGA_WAITS")
	if r := q.Send("DELETE", at(l)+"?force=true&reason=x", ""); r.Status != 200 {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	l = waiting()
	if r := q.Send("POST", at(l)+"/resolve", `{"reason":"refunded by hand"}`).Letter(200); *r.Resolution != client.DeadLetterResolutionMANUAL {
		t.Errorf("resolved: %+v", r)
	}
	q.Send("POST", at(l)+"/resolve", "").Wants(409, "DLQ_CONFLICT")
	if r := q.Send("DELETE", at(l)+"?reason=r", ""); r.Status != 200 {
		t.Errorf("a resolved one: %d %s", r.Status, r.Body)
	}
}

func TestAnArchivedLetterIsReadAndRestored(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := q.push(q.toTarget(`"payload":{"n":1}`))
	live := q.push(q.toTarget(""))
	archived := "/api/v1/dlq/archive/" + l.ID.String()
	q.Send("GET", archived, "").Wants(404, "DLQ_NOT_FOUND")
	q.Send("POST", archived+"/restore?dry_run=true", "").Wants(409, "DLQ_CONFLICT")
	p := q.Send("POST", archived+"/restore", "").Wants(409, "DLQ_CONFLICT")
	if p.Current == nil || p.Current.Status != client.DeadLetterStatusPENDING {
		t.Errorf("a live one: %+v", p)
	}
	archive := func() {
		q.Send("POST", at(l)+"/resolve", "").Letter(200)
		for range 100 { // a letter is archived once its retention has passed on the database's clock
			if n, err := q.loops.Archive(t.Context(), 10); err != nil {
				t.Fatal(err)
			} else if n > 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	archive()
	for _, path := range []string{at(l), archived} {
		r := q.Send("GET", path, "")
		got := r.Letter(200)
		want := got
		want.Archived, want.Payload = new(true), client.AnyJSON(`{"n":1}`)
		want.AllowedActions = []client.DeadLetterVerb{client.DeadLetterVerbRestore}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
		if got.ArchivedAt == nil || r.Header.Get("ETag") != `"2-archived"` {
			t.Errorf("%s: %v %s", path, r.Header, r.Body)
		}
		if r := q.Send("GET", path, "", "If-None-Match", `"2-archived"`); r.Status != 304 {
			t.Errorf("%s again: %d", path, r.Status)
		}
	}
	for _, op := range [][]string{
		{"POST", at(l) + "/retry", ""}, {"POST", at(l) + "/requeue", ""}, {"POST", at(l) + "/discard", `{"reason":"r"}`}, {"POST", at(l) + "/resolve", ""},
		{"POST", at(l) + "/ack", `{"generation":0,"outcome":"FAILED"}`}, {"PATCH", at(l), `{"note":"x"}`}, {"DELETE", at(l) + "?reason=r", ""},
	} {
		if p := q.Send(op[0], op[1], op[2]).Wants(409, "DLQ_CONFLICT"); p.AllowedActions == nil ||
			!cmp.Equal(p.AllowedActions, []string{"restore"}) {
			t.Errorf("%v: %+v", op, p)
		}
	}
	if list := q.Send("GET", "/api/v1/dlq/archive?topic=orders&resolution=MANUAL&view=full", "").Messages(); len(list.Messages) != 1 || list.Messages[0].ID != l.ID ||
		list.Messages[0].Payload == nil {
		t.Errorf("the archive: %+v", list)
	}
	if list := q.Send("GET", letters, "").Messages(); len(list.Messages) != 1 || list.Messages[0].ID != live.ID {
		t.Errorf("the live ones: %+v", list)
	}
	restored := q.Send("POST", archived+"/restore", `{"reason":"again"}`).Letter(200)
	q.Send("GET", archived, "").Wants(404, "DLQ_NOT_FOUND")
	if kept := q.Send("GET", at(l), "").Letter(200); !cmp.Equal(kept, restored) {
		t.Errorf("(-answered +kept):\n%s", cmp.Diff(restored, kept))
	}

	archive()
	before := q.Send("GET", archived, "").Letter(200)
	would := q.Send("POST", archived+"/restore?dry_run=true", `{"reason":"again"}`).Letter(200)
	if c := would.Changes; c == nil || len(*c) == 0 || (*c)[0].Member != "place" || *(*c)[0].To != "live" {
		t.Errorf("the dry run says %+v", c)
	}
	if kept := q.Send("GET", archived, "").Letter(200); !cmp.Equal(kept, before) {
		t.Errorf("a dry run (-before +after):\n%s", cmp.Diff(before, kept))
	}
	restored = q.Send("POST", archived+"/restore", `{"reason":"again"}`).Letter(200)
	if would.Status != restored.Status || would.MaxRetries != restored.MaxRetries || would.NextRetryAt != nil ||
		would.Archived != nil {
		t.Errorf("the dry run says %+v, and %+v comes of it", would, restored)
	}
}
