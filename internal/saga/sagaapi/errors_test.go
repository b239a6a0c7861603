package sagaapi_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func TestTheOldestSagasComeFirstAndTheirCursorsAreTheirOwn(t *testing.T) {
	e := apitest.NewEdge(t)
	numbered(t, e, 5)
	first := e.List("order=asc&page_size=2")
	if correlations(first) != "1 2" {
		t.Fatalf("page 1 = %s", correlations(first))
	}
	cursor := "&cursor=" + *first.Pagination.NextCursor
	if got := e.List("order=asc&page_size=9" + cursor); correlations(got) != "3 4 5" {
		t.Errorf("after the cursor: %s", correlations(got))
	}
	if got := e.List("order=asc&page=2&page_size=2"); correlations(got) != "3 4" {
		t.Errorf("page 2 = %s", correlations(got))
	}
	newest := "&cursor=" + *e.List("page_size=2").Pagination.NextCursor
	for name, query := range map[string]string{
		"oldest first": "page_size=2" + cursor, "newest first": "order=asc" + newest,
	} {
		p := e.Send("GET", apitest.SagasPath+"?"+query, "").Wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
		if p.Errors[0].Parameter != "cursor" || !strings.Contains(p.Errors[0].Message, "order") {
			t.Errorf("a cursor of the other order, %s: %+v", name, p.Errors)
		}
	}
}

func TestFiltersByErrorSayWhatTheyNeed(t *testing.T) {
	e := apitest.NewEdge(t)
	numbered(t, e, 1)
	e.Node.Rest() // the saga has ended
	for query, pointer := range map[string]string{
		"step=reserve": "step",
		"step=reserve&workflow_name=order&archived=true": "step",
		"error_code=x&archived=true":                     "error_code",
		"order=newest":                                   "order",
		"ended_from=yesterday":                           "ended_from",
		"attention_since_to=1":                           "attention_since_to",
	} {
		p := e.Send("GET", apitest.SagasPath+"?"+query, "").Wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
		if p.Errors[0].Place() != pointer {
			t.Errorf("%s: %+v", query, p.Errors)
		}
	}
	for query, want := range map[string]int{
		"step=reserve&workflow_name=order": 0, "step=reserve&definition_id=order%401": 0, "error_code=http_500": 0,
		"ended_from=2000-01-01T00:00:00Z": 1, "ended_to=2000-01-01T00:00:00Z": 0,
		"ended_from=2000-01-01T00:00:00Z&archived=true": 0,
		"attention_since_from=2000-01-01T00:00:00Z":     0, "attention_since_from=2000-01-01T00:00:00Z&needs_attention=false": 0,
	} {
		if got := e.List(query); len(got.Sagas) != want {
			t.Errorf("%s: %d sagas, want %d", query, len(got.Sagas), want)
		}
	}
}

func TestSagasAreGroupedByTheirErrors(t *testing.T) {
	e := newBulkEdge(t)
	e.Register("order", "reserve")
	e.Register("refund", "find")
	for _, workflow := range []string{"order", "order", "refund"} {
		e.Start(`{"workflow_name":"` + workflow + `"}`)
	}
	for _, s := range e.List("").Sagas {
		e.Send("POST", apitest.SagasPath+"/"+s.SagaID.String()+"/cancel", `{"reason":"test"}`).Wants2xx()
	}
	var all client.SagaErrorList
	const cancelled = "/api/v1/saga-errors?status=CANCELLED&status=RUNNING"
	e.Send("GET", cancelled, "").Into(&all)
	if len(all.Groups) != 2 || all.Examined != 3 || all.IsCapped || *all.Pagination.TotalCount != 2 {
		t.Fatalf("errors = %+v", all)
	}
	g := all.Groups[0]
	if g.WorkflowName != "order" || *g.Step != "reserve" || g.Action != "EXECUTE" ||
		*g.Code != "SAGA_CANCELLED" || g.Count != 2 || g.NeedsAttention != 0 ||
		!slices.Equal(g.States, []client.SagaState{"cancelled"}) || g.FirstAt.After(g.LastAt) {
		t.Errorf("the largest group = %+v", g)
	}
	link, err := url.Parse(g.Links["sagas"])
	if err != nil {
		t.Fatal(err)
	}
	if got := e.List(link.RawQuery); len(got.Sagas) != 2 {
		t.Errorf("%s lists %d sagas", link, len(got.Sagas))
	}
	var first, second client.SagaErrorList
	e.Send("GET", cancelled+"&page_size=1", "").Into(&first)
	e.Send("GET", cancelled+"&page_size=1&cursor="+*first.Pagination.NextCursor, "").Into(&second)
	if len(second.Groups) != 1 || second.Groups[0].WorkflowName != "refund" || second.Pagination.HasNext {
		t.Errorf("page 2 = %+v", second)
	}
	for query, want := range map[string]int{
		"": 0, "status=CANCELLED&workflow_name=refund": 1, "status=FAILED&status=RUNNING": 0,
		"status=CANCELLED&needs_attention=false": 2, "status=CANCELLED&needs_attention=true": 0,
		"status=CANCELLED&ended_to=2000-01-01T00:00:00Z": 0, "status=CANCELLED&created_from=2000-01-01T00:00:00Z": 2,
	} {
		var some client.SagaErrorList
		e.Send("GET", "/api/v1/saga-errors?"+query, "").Into(&some)
		if len(some.Groups) != want {
			t.Errorf("%s: %d groups, want %d", query, len(some.Groups), want)
		}
	}
	const bulk = `{"action":"cancel","reason":"seen","filter":`
	p := e.Send("POST", bulkPath, bulk+`{"step":"reserve"}}`).Wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	if p.Errors[0].Pointer != "/filter/step" {
		t.Errorf("a bulk by step without its workflow: %+v", p.Errors)
	}
	e.Start(`{"workflow_name":"order"}`)
	e.Start(`{"workflow_name":"refund"}`)
	if b := e.bulk(bulk + `{"step":"reserve","workflow_name":"order"}}`); b.Done != 1 || b.Skipped != 0 {
		t.Errorf("a bulk by step = %+v", b)
	}
	e.Send("GET", cancelled, "").Into(&all)
	if all.Groups[0].Count != 3 || all.Groups[0].WorkflowName != "order" {
		t.Errorf("after it: %+v", all)
	}
}
