package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/saga"
)

func TestAnArchivedSagaIsAnsweredAsBeforeAndSaysSo(t *testing.T) {
	e := newEdge(t)
	e.register("order", "reserve", "pay")
	at := e.finish(`{"workflow_name":"order","payload":{"n":1.50},"metadata":{"team":1},"correlation_id":"c"}`)
	type answers struct {
		saga   client.Saga
		logs   client.StepLogList
		steps  client.StepList
		why    client.SagaExplanation
		result string
	}
	read := func() (a answers) {
		t.Helper()
		e.send("GET", at, "").into(&a.saga)
		e.send("GET", at+"/step-logs", "").into(&a.logs)
		e.send("GET", at+"/steps", "").into(&a.steps)
		e.send("GET", at+"/explain", "").into(&a.why)
		r := e.send("GET", at+"/result", "")
		if a.result = string(r.body); r.status != http.StatusOK {
			t.Errorf("the result: %d %s", r.status, r.body)
		}
		return a
	}
	live := read()
	if run := e.archiveAll(); run.Archived != 1 || run.More || run.DryRun {
		t.Fatalf("run %+v, want one archived", run)
	}
	archived := read()
	for what, since := range map[string]struct {
		archived *bool
		at       *time.Time
	}{
		"saga": {archived.saga.Archived, archived.saga.ArchivedAt}, "logs": {archived.logs.Archived, archived.logs.ArchivedAt}, "steps": {archived.steps.Archived, archived.steps.ArchivedAt},
		"explanation": {archived.why.Archived, archived.why.ArchivedAt},
	} {
		if since.archived == nil || !*since.archived || since.at == nil || since.at.Before(live.saga.UpdatedAt) {
			t.Errorf("%s: archived %v at %v", what, since.archived, since.at)
		}
	}
	if diff := cmp.Diff([]client.SagaAction{client.SagaActionRestore}, archived.saga.AllowedActions); diff != "" {
		t.Errorf("allowed actions (-want +got):\n%s", diff)
	}
	same := cmp.Options{
		cmp.AllowUnexported(answers{}), cmpopts.IgnoreFields(client.Saga{}, "Archived", "ArchivedAt", "AllowedActions"),
		cmpopts.IgnoreFields(client.StepLogList{}, "Archived", "ArchivedAt"), cmpopts.IgnoreFields(client.StepList{}, "Archived", "ArchivedAt"),
		cmpopts.IgnoreFields(client.SagaExplanation{}, "Archived", "ArchivedAt", "Actions", "Summary"),
	}
	if diff := cmp.Diff(live, archived, same); diff != "" || live.saga.Archived != nil || live.logs.Archived != nil || live.steps.Archived != nil {
		t.Errorf("the saga (-live +archived):\n%s", diff)
	}
	if a := archived.why.Actions; len(a) != 1 || a[0].Action != client.SagaActionRestore || a[0].Permission != "sagas:admin" || a[0].Description == "" {
		t.Errorf("what can be done: %+v, want the restore", a)
	}
	if want := live.why.Summary + " It has been in the archive since "; !strings.HasPrefix(archived.why.Summary, want) || !strings.HasSuffix(archived.why.Summary, ": restore it before acting on it.") {
		t.Errorf("the sentence is %q, want %q …", archived.why.Summary, want)
	}
	// It looks different, so it is another version to caches.
	tag := fmt.Sprintf(`"%d-archived"`, live.saga.Version)
	for _, path := range []string{at, at + "/steps", at + "/step-logs", at + "/result"} {
		if r := e.send("GET", path, "", "If-None-Match", tag); r.status != http.StatusNotModified || r.header.Get("ETag") != tag {
			t.Errorf("%s: %d, ETag %s, want 304 with %s", path, r.status, r.header.Get("ETag"), tag)
		}
	}
	if s := e.saga(at + "?wait=10s"); s.Status != client.SagaStatusCOMPLETED {
		t.Errorf("waiting for what has ended: %s", s.Status)
	}
}

func TestTheArchiveIsAListOfItsOwn(t *testing.T) {
	e := newEdge(t)
	numbered(t, e, 5)
	e.node.rest()
	e.archiveAll()
	e.start(`{"workflow_name":"order","correlation_id":"live"}`)
	if got := correlations(e.list("")); got != "live" {
		t.Errorf("live: %s", got)
	}
	first := e.list("archived=true&page_size=3&view=full")
	if correlations(first) != "5 4 3" || *first.Pagination.TotalCount != 5 || !first.Pagination.HasNext || !*first.Sagas[0].Archived || first.Sagas[0].ArchivedAt == nil {
		t.Errorf("page 1: %s, %+v", correlations(first), first.Pagination)
	}
	rest := e.list("archived=true&page_size=3&cursor=" + *first.Pagination.NextCursor)
	if correlations(rest) != "2 1" || rest.Pagination.HasNext {
		t.Errorf("page 2: %s", correlations(rest))
	}
	if got := correlations(e.list("archived=true&correlation_id=2&status=COMPLETED&workflow_name=order")); got != "2" {
		t.Errorf("filtered: %s", got)
	}
	for _, none := range []string{"status=FAILED", "status=RUNNING", "needs_attention=true", "status=FAILED&state=completed"} {
		if list := e.list("archived=true&" + none); len(list.Sagas) > 0 || *list.Pagination.TotalCount != 0 {
			t.Errorf("%s: %s", none, correlations(list))
		}
	}
	// A cursor of the archive is none of the live list.
	e.send("GET", sagas+"?cursor="+*first.Pagination.NextCursor, "").wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
}

func TestActionsOnAnArchivedSagaSayThatItMustBeRestored(t *testing.T) {
	e := newEdge(t)
	e.register("order", "reserve")
	at := e.finish(`{"workflow_name":"order"}`)
	e.archiveAll()
	for _, action := range []string{"cancel", "compensate", "resume-compensation"} {
		p := e.send("POST", at+"/"+action, "", "Idempotency-Key", "k-"+action).wants(http.StatusConflict, "SAGA_ARCHIVED")
		if p.AllowedActions == nil || !cmp.Equal(p.AllowedActions, []string{"restore"}) {
			t.Errorf("%s: allowed actions %v", action, p.AllowedActions)
		}
	}
}

// What an archived saga that could not be undone waits for is told, and that it has no result.
func TestAnArchivedFailureIsExplained(t *testing.T) {
	e := newEdge(t)
	e.register("order", "reserve", "pay")
	e.node.script = func(c saga.Call) saga.Outcome {
		if c.Step == "pay" || c.Action == saga.Compensate {
			return refused()
		}
		return done("null")
	}
	at := e.finish(`{"workflow_name":"order"}`)
	if r := e.send("POST", at+"/acknowledge", ""); r.status != http.StatusAccepted {
		t.Fatalf("acknowledge: %d %s", r.status, r.body)
	}
	if run := e.archiveAll(); run.Archived != 1 {
		t.Fatalf("%d sagas archived, want the one", run.Archived)
	}
	var why client.SagaExplanation
	e.send("GET", at+"/explain", "").into(&why)
	if why.WaitsFor != client.SagaExplanationWaitsForOperator || why.Archived == nil || len(why.Errors) == 0 || why.Step == nil {
		t.Errorf("the explanation is %+v", why)
	}
	e.send("GET", at+"/result", "").wants(http.StatusConflict, "SAGA_HAS_NO_RESULT")
	for _, path := range []string{"/explain", "/result"} {
		e.send("GET", missing+path, "").wants(http.StatusNotFound, "SAGA_NOT_FOUND")
	}
}

func TestRestoreBringsASagaBackOnce(t *testing.T) {
	e := newEdge(t)
	e.register("order", "reserve")
	at := e.finish(`{"workflow_name":"order","payload":{"n":1}}`)
	before := e.saga(at)
	p := e.send("POST", at+"/restore", "").wants(http.StatusConflict, "SAGA_NOT_ARCHIVED")
	if p.AllowedActions == nil || len(p.AllowedActions) > 0 {
		t.Errorf("allowed actions %v, want the live saga's: none", p.AllowedActions)
	}
	e.archiveAll()
	e.send("POST", at+"/restore", "", "If-Match", fmt.Sprintf(`"%d"`, before.Version)).wants(http.StatusPreconditionFailed, "SAGA_VERSION_CONFLICT")
	r := e.send("POST", at+"/restore", `{"reason":"a customer asks","requested_by":"ann"}`, "Idempotency-Key", "k",
		"If-Match", fmt.Sprintf(`"%d-archived"`, before.Version))
	var back client.Saga
	r.into(&back)
	if r.status != http.StatusOK || r.header.Get("ETag") != fmt.Sprintf(`"%d"`, before.Version) || r.header.Get("Idempotent-Replayed") != "" {
		t.Fatalf("restore: %d %s", r.status, r.body)
	}
	if diff := cmp.Diff(before, e.saga(at)); diff != "" || back.Archived != nil {
		t.Errorf("the saga (-before +after):\n%s", diff)
	}
	if r := e.send("POST", at+"/restore", `{"reason":"a customer asks","requested_by":"ann"}`, "Idempotency-Key", "k"); r.status != http.StatusOK || r.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the same request again: %d %v", r.status, r.header)
	}
	e.send("POST", at+"/restore", "", "Idempotency-Key", "k").wants(http.StatusUnprocessableEntity, "REQ_IDEMPOTENCY_KEY_REUSED")
	e.send("POST", at+"/restore", "").wants(http.StatusConflict, "SAGA_NOT_ARCHIVED")
	e.send("POST", missing+"/restore", "").wants(http.StatusNotFound, "SAGA_NOT_FOUND")
	e.archiveAll() // the trail does not go with it
	var told client.AuditEventList
	if e.send("GET", at+"/events", "").into(&told); len(told.Events) < 3 {
		t.Fatalf("%d events of an archived saga", len(told.Events))
	}
	if last := told.Events[len(told.Events)-1]; last.EventType != "saga.restored" || string(last.EventData) != `{"by":"ann","reason":"a customer asks"}` {
		t.Errorf("the last event is %s %s, want the restore", last.EventType, last.EventData)
	}
	if log := e.log.String(); !strings.Contains(log, "saga restored from the archive") || !strings.Contains(log, `"by":"ann"`) || strings.Contains(log, "a customer asks") {
		t.Errorf("log %s", log)
	}
}

func TestARepeatedCreateOfAnArchivedSagaIsStillReplayed(t *testing.T) {
	e := newEdge(t)
	e.register("order", "reserve")
	at := e.finish(`{"workflow_name":"order"}`, "Idempotency-Key", "k")
	e.archiveAll()
	for _, query := range []string{"", "?wait=5s"} {
		r := e.send("POST", sagas+query, `{"workflow_name":"order"}`, "Idempotency-Key", "k")
		var s client.Saga
		r.into(&s)
		if r.status != http.StatusCreated || sagas+"/"+s.SagaID.String() != at || s.Archived == nil || r.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%q: %d %s", query, r.status, r.body)
		}
	}
	e.send("POST", sagas, `{"workflow_name":"order","saga_id":"`+strings.TrimPrefix(at, sagas+"/")+`"}`).wants(http.StatusConflict, "SAGA_ALREADY_EXISTS")
}

// between archives or restores a saga between two reads of it.
type between struct {
	saga.Store
	afterGet func()
}

func (b *between) Get(ctx context.Context, tenant, id uuid.UUID) (saga.Saga, error) {
	s, err := b.Store.Get(ctx, tenant, id)
	if f := b.afterGet; f != nil {
		b.afterGet = nil
		f()
	}
	return s, err
}

func TestASagaThatMovesBetweenTwoReadsIsReadWhole(t *testing.T) {
	b := &between{}
	e := newEdge(t, func(c *httpapi.Config) { b.Store, c.Sagas = c.Sagas, b })
	e.register("order", "reserve")
	at := e.finish(`{"workflow_name":"order"}`)
	b.afterGet = func() { e.archiveAll() } // head live, logs gone
	if s := e.saga(at); s.Archived == nil || len(s.StepLogs) != 1 {
		t.Errorf("archived meanwhile: archived %v, %d logs", s.Archived, len(s.StepLogs))
	}
	b.afterGet = func() { // not live, and not archived any more
		if r := e.send("POST", at+"/restore", ""); r.status != http.StatusOK {
			t.Errorf("restore: %d %s", r.status, r.body)
		}
	}
	if s := e.saga(at); s.Archived != nil || len(s.StepLogs) != 1 {
		t.Errorf("restored meanwhile: archived %v, %d logs", s.Archived, len(s.StepLogs))
	}
}
