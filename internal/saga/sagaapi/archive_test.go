package sagaapi_test

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
	"github.com/skald-saga/skald/internal/test/apitest"
)

// A basic view contains every attempt, but leaves out long members. A step log of interest can be
// read by its id.
func TestABasicViewLeavesOutWhatIsLong(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve", "pay")
	at := e.Finish(`{"workflow_name":"order","payload":{"n":1.50}}`)
	for range 2 { // first live, then archived
		var full, basic client.Saga
		e.Send("GET", at, "").Into(&full)
		e.Send("GET", at+"?view=basic", "").Into(&basic)
		var one client.StepLogList
		e.Send("GET", at+"/step-logs?id="+full.StepLogs[1].ID.String(), "").Into(&one)
		if len(one.StepLogs) != 1 || len(one.StepLogs[0].RequestPayload) == 0 ||
			cmp.Diff(full.StepLogs[1:], one.StepLogs) != "" {
			t.Errorf("by id: %+v, want %+v", one.StepLogs, full.StepLogs[1])
		}
		var logs client.StepLogList
		e.Send("GET", at+"/step-logs?view=basic", "").Into(&logs)
		full.Result = nil
		for i := range full.StepLogs {
			full.StepLogs[i].RequestPayload, full.StepLogs[i].ResponsePayload = nil, nil
		}
		if diff := cmp.Diff(full, basic); diff != "" {
			t.Errorf("basic (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(full.StepLogs, logs.StepLogs); diff != "" {
			t.Errorf("basic step logs (-want +got):\n%s", diff)
		}
		var steps, short client.StepList
		e.Send("GET", at+"/steps", "").Into(&steps)
		e.Send("GET", at+"/steps?view=basic", "").Into(&short)
		for i := range steps.Steps {
			if len(steps.Steps[i].InputData) == 0 {
				t.Errorf("step %d has no input", i)
			}
			steps.Steps[i].InputData, steps.Steps[i].OutputData = nil, nil
		}
		if diff := cmp.Diff(steps, short); diff != "" {
			t.Errorf("basic steps (-want +got):\n%s", diff)
		}
		e.ArchiveAll()
	}
}

func TestAnArchivedSagaIsReturnedAsBeforeAndMarked(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve", "pay")
	at := e.Finish(`{"workflow_name":"order","payload":{"n":1.50},"metadata":{"team":1},"correlation_id":"c"}`)
	type answers struct {
		saga   client.Saga
		logs   client.StepLogList
		steps  client.StepList
		why    client.SagaExplanation
		result string
	}
	read := func() (a answers) {
		t.Helper()
		e.Send("GET", at, "").Into(&a.saga)
		e.Send("GET", at+"/step-logs", "").Into(&a.logs)
		e.Send("GET", at+"/steps", "").Into(&a.steps)
		e.Send("GET", at+"/explain", "").Into(&a.why)
		r := e.Send("GET", at+"/result", "")
		if a.result = string(r.Body); r.Status != http.StatusOK {
			t.Errorf("the result: %d %s", r.Status, r.Body)
		}
		return a
	}
	live := read()
	if run := e.ArchiveAll(); run.Archived != 1 || run.More || run.DryRun {
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
		cmpopts.IgnoreFields(client.StepLogList{}, "Archived", "ArchivedAt"), cmpopts.IgnoreFields(client.StepList{},
			"Archived", "ArchivedAt"),
		cmpopts.IgnoreFields(client.SagaExplanation{}, "Archived", "ArchivedAt", "Actions", "Summary"),
	}
	if diff := cmp.Diff(live, archived, same); diff != "" || live.saga.Archived != nil || live.logs.Archived != nil ||
		live.steps.Archived != nil {
		t.Errorf("the saga (-live +archived):\n%s", diff)
	}
	if a := archived.why.Actions; len(a) != 1 || a[0].Action != client.SagaActionRestore ||
		a[0].Permission != "sagas:admin" || a[0].Description == "" {
		t.Errorf("actions: %+v, want the restore", a)
	}
	if want := live.why.Summary + " It has been in the archive since "; !strings.HasPrefix(archived.why.Summary, want) ||
		!strings.HasSuffix(archived.why.Summary, ": restore it before acting on it.") {
		t.Errorf("the summary is %q, want %q …", archived.why.Summary, want)
	}
	// The archived saga looks different, so it has a different ETag for caches.
	tag := fmt.Sprintf(`"%d-archived"`, live.saga.Version)
	for _, path := range []string{at, at + "/steps", at + "/step-logs", at + "/result"} {
		if r := e.Send("GET", path, "", "If-None-Match", tag); r.Status != http.StatusNotModified ||
			r.Header.Get("ETag") != tag {
			t.Errorf("%s: %d, ETag %s, want 304 with %s", path, r.Status, r.Header.Get("ETag"), tag)
		}
	}
	if s := e.Saga(at + "?wait=10s"); s.Status != client.SagaStatusCOMPLETED {
		t.Errorf("waiting for an ended saga: %s", s.Status)
	}
}

func TestTheArchiveIsASeparateList(t *testing.T) {
	e := apitest.NewEdge(t)
	numbered(t, e, 5)
	e.Node.Rest()
	e.ArchiveAll()
	e.Start(`{"workflow_name":"order","correlation_id":"live"}`)
	if got := correlations(e.List("")); got != "live" {
		t.Errorf("live: %s", got)
	}
	first := e.List("archived=true&page_size=3&view=full")
	if correlations(first) != "5 4 3" || *first.Pagination.TotalCount != 5 || !first.Pagination.HasNext {
		t.Errorf("page 1: %s, %+v", correlations(first), first.Pagination)
	}
	if s := first.Sagas[0]; !*s.Archived || s.ArchivedAt == nil {
		t.Errorf("page 1: %+v", s)
	}
	rest := e.List("archived=true&page_size=3&cursor=" + *first.Pagination.NextCursor)
	if correlations(rest) != "2 1" || rest.Pagination.HasNext {
		t.Errorf("page 2: %s", correlations(rest))
	}
	if got := correlations(e.List("archived=true&correlation_id=2&status=COMPLETED&workflow_name=order")); got != "2" {
		t.Errorf("filtered: %s", got)
	}
	for _, none := range []string{"status=FAILED", "status=RUNNING", "needs_attention=true", "status=FAILED&state=completed"} {
		if list := e.List("archived=true&" + none); len(list.Sagas) > 0 || *list.Pagination.TotalCount != 0 {
			t.Errorf("%s: %s", none, correlations(list))
		}
	}
	// A cursor of the archive is not valid for the live list.
	e.Send("GET", apitest.SagasPath+"?cursor="+*first.Pagination.NextCursor, "").Wants(http.StatusBadRequest,
		"REQ_INVALID_PARAMETER")
}

func TestActionsOnAnArchivedSagaReportThatItMustBeRestored(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	at := e.Finish(`{"workflow_name":"order"}`)
	e.ArchiveAll()
	for _, action := range []string{"cancel", "compensate", "resume-compensation"} {
		p := e.Send("POST", at+"/"+action, "", "Idempotency-Key", "k-"+action).Wants(http.StatusConflict, "SAGA_ARCHIVED")
		if p.AllowedActions == nil || !cmp.Equal(p.AllowedActions, []string{"restore"}) {
			t.Errorf("%s: allowed actions %v", action, p.AllowedActions)
		}
	}
}

// The explanation of an archived saga whose compensation failed says what it waits for. Such a saga
// has no result.
func TestAnArchivedFailureIsExplained(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve", "pay")
	e.Node.Script = func(c saga.Call) saga.Outcome {
		if c.Step == "pay" || c.Action == saga.Compensate {
			return apitest.Refused()
		}
		return apitest.Done("null")
	}
	at := e.Finish(`{"workflow_name":"order"}`)
	if r := e.Send("POST", at+"/acknowledge", ""); r.Status != http.StatusAccepted {
		t.Fatalf("acknowledge: %d %s", r.Status, r.Body)
	}
	if run := e.ArchiveAll(); run.Archived != 1 {
		t.Fatalf("%d sagas archived, want the one", run.Archived)
	}
	var why client.SagaExplanation
	e.Send("GET", at+"/explain", "").Into(&why)
	if why.WaitsFor != client.SagaExplanationWaitsForOperator || why.Archived == nil || len(why.Errors) == 0 ||
		why.Step == nil {
		t.Errorf("the explanation is %+v", why)
	}
	e.Send("GET", at+"/result", "").Wants(http.StatusConflict, "SAGA_HAS_NO_RESULT")
	for _, path := range []string{"/explain", "/result"} {
		e.Send("GET", apitest.MissingSaga+path, "").Wants(http.StatusNotFound, "SAGA_NOT_FOUND")
	}
}

func TestRestoreBringsASagaBackOnce(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	at := e.Finish(`{"workflow_name":"order","payload":{"n":1}}`)
	before := e.Saga(at)
	p := e.Send("POST", at+"/restore", "").Wants(http.StatusConflict, "SAGA_NOT_ARCHIVED")
	if p.AllowedActions == nil || len(p.AllowedActions) > 0 {
		t.Errorf("allowed actions %v, want the live saga's: none", p.AllowedActions)
	}
	e.ArchiveAll()
	e.Send("POST", at+"/restore", "", "If-Match", fmt.Sprintf(`"%d"`, before.Version)).Wants(http.StatusPreconditionFailed,
		"SAGA_VERSION_CONFLICT")
	r := e.Send("POST", at+"/restore", `{"reason":"a customer asks","requested_by":"ann"}`, "Idempotency-Key", "k",
		"If-Match", fmt.Sprintf(`"%d-archived"`, before.Version))
	var back client.Saga
	r.Into(&back)
	if r.Status != http.StatusOK || r.Header.Get("ETag") != fmt.Sprintf(`"%d"`, before.Version) ||
		r.Header.Get("Idempotent-Replayed") != "" {
		t.Fatalf("restore: %d %s", r.Status, r.Body)
	}
	if diff := cmp.Diff(before, e.Saga(at)); diff != "" || back.Archived != nil {
		t.Errorf("the saga (-before +after):\n%s", diff)
	}
	if r := e.Send("POST", at+"/restore", `{"reason":"a customer asks","requested_by":"ann"}`, "Idempotency-Key", "k"); r.Status != http.StatusOK ||
		r.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the same request again: %d %v", r.Status, r.Header)
	}
	e.Send("POST", at+"/restore", "", "Idempotency-Key", "k").Wants(http.StatusUnprocessableEntity,
		"REQ_IDEMPOTENCY_KEY_REUSED")
	e.Send("POST", at+"/restore", "").Wants(http.StatusConflict, "SAGA_NOT_ARCHIVED")
	e.Send("POST", apitest.MissingSaga+"/restore", "").Wants(http.StatusNotFound, "SAGA_NOT_FOUND")
	e.ArchiveAll() // the audit trail stays as it is
	var told client.AuditEventList
	if e.Send("GET", at+"/events", "").Into(&told); len(told.Events) < 3 {
		t.Fatalf("%d events of an archived saga", len(told.Events))
	}
	if last := told.Events[len(told.Events)-1]; last.EventType != "saga.restored" || string(last.EventData) != `{"by":"ann","reason":"a customer asks"}` {
		t.Errorf("the last event is %s %s, want the restore", last.EventType, last.EventData)
	}
	if log := e.Log.String(); !strings.Contains(log, "saga restored from the archive") || !strings.Contains(log, `"by":"ann"`) ||
		strings.Contains(log, "a customer asks") {
		t.Errorf("log %s", log)
	}
}

func TestARepeatedCreateOfAnArchivedSagaIsStillReplayed(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	at := e.Finish(`{"workflow_name":"order"}`, "Idempotency-Key", "k")
	e.ArchiveAll()
	for _, query := range []string{"", "?wait=5s"} {
		r := e.Send("POST", apitest.SagasPath+query, `{"workflow_name":"order"}`, "Idempotency-Key", "k")
		var s client.Saga
		r.Into(&s)
		if r.Status != http.StatusCreated || apitest.SagasPath+"/"+s.SagaID.String() != at || s.Archived == nil ||
			r.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%q: %d %s", query, r.Status, r.Body)
		}
	}
	e.Send("POST", apitest.SagasPath, `{"workflow_name":"order","saga_id":"`+strings.TrimPrefix(at, apitest.SagasPath+"/")+`"}`).Wants(http.StatusConflict,
		"SAGA_ALREADY_EXISTS")
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

func TestASagaThatMovesBetweenTwoReadsIsReadCompletely(t *testing.T) {
	b := &between{}
	e := apitest.NewEdge(t, func(c *httpapi.Config) { b.Store, c.Sagas.Store = c.Sagas.Store, b })
	e.Register("order", "reserve")
	at := e.Finish(`{"workflow_name":"order"}`)
	b.afterGet = func() { e.ArchiveAll() } // the head is still live, the logs are gone
	if s := e.Saga(at); s.Archived == nil || len(s.StepLogs) != 1 {
		t.Errorf("archived meanwhile: archived %v, %d logs", s.Archived, len(s.StepLogs))
	}
	b.afterGet = func() { // no longer archived when the archive is read
		if r := e.Send("POST", at+"/restore", ""); r.Status != http.StatusOK {
			t.Errorf("restore: %d %s", r.Status, r.Body)
		}
	}
	if s := e.Saga(at); s.Archived != nil || len(s.StepLogs) != 1 {
		t.Errorf("restored meanwhile: archived %v, %d logs", s.Archived, len(s.StepLogs))
	}
}
