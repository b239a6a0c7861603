package overviewapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/test/apitest"
)

// TestTheMemoryStoreKnowsWhatSagasNeed: sagas only, and it says so.
func TestTheMemoryStoreKnowsWhatSagasNeed(t *testing.T) {
	e := apitest.NewEdge(t, apitest.Guarded)
	operator, auditor := apitest.As("operator"), apitest.As("auditor")
	e.Send("GET", "/api/v1/overview", "", apitest.As("worker")...).Wants(http.StatusForbidden, "AUTH_FORBIDDEN")
	var o client.Overview
	e.Send("GET", "/api/v1/overview", "", auditor...).Reads(http.StatusOK, &o)
	if len(o.Causes) != 0 || len(o.Omitted) != 4 || o.Omitted[0].Because != client.OverviewOmittedBecauseStore ||
		o.Counts.SagasNeedAttention == nil || o.Counts.LettersOpen != nil {
		t.Errorf("an empty store: %+v", o)
	}
	e.Send("GET", "/api/v1/search?q=k-7", "", operator...).Wants2xx()
	e.Send("GET", "/api/v1/search", "", operator...).Wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
	run := uuid.NewString()
	e.Send("GET", "/api/v1/watch?run="+run, "", operator...).Wants(http.StatusServiceUnavailable, "JOB_UNAVAILABLE")
	e.Send("GET", "/api/v1/watch?letter="+run, "", operator...).Wants(http.StatusServiceUnavailable, "DLQ_UNAVAILABLE")
	e.Send("GET", "/api/v1/watch", "", operator...).Wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
	many := strings.Repeat("saga="+run+"&", 60) + strings.Repeat("&group="+strings.Repeat("a", 32), 60)
	e.Send("GET", "/api/v1/watch?"+strings.ReplaceAll(many, "&&", "&"), "", operator...).Wants(http.StatusBadRequest,
		"REQ_INVALID_PARAMETER")
}

func TestASagaIsFoundAndFollowed(t *testing.T) {
	e := apitest.NewEdge(t)
	at, gate := apitest.Held(t, e, nil)
	id := strings.TrimPrefix(at, apitest.SagasPath+"/")
	live := e.Follow(e.URL + "/api/v1/watch?saga=" + id + "&saga=" + uuid.NewString())
	if first := live.States(2); !strings.Contains(first[0], `"state":"pending"`) ||
		!strings.Contains(first[1], `"gone":true`) {
		t.Errorf("the beginning of the stream: %q", first)
	}
	close(gate.Open)
	for !strings.Contains(live.States(1)[0], `"state":"completed"`) {
	}
	var found client.SearchResult
	e.Send("GET", "/api/v1/search?q="+strings.ToUpper(id), "").Reads(http.StatusOK, &found)
	if len(found.Hits) != 1 || found.Hits[0].Kind != client.SearchHitKindSaga || found.Hits[0].Link != at {
		t.Errorf("by its id: %+v", found.Hits)
	}
	e.Register("refund", "reverse", "tell")
	e.Node.Script = func(c saga.Call) saga.Outcome {
		if c.Step == "tell" || c.Action == saga.Compensate {
			return apitest.Refused()
		}
		return apitest.Done(`{"ok":true}`)
	}
	_ = e.Finish(`{"workflow_name":"refund","business_key":"k-7","correlation_id":"c-7"}`)
	for q, by := range map[string]client.SearchHitMatched{"k-7": "business_key", "c-7": "correlation_id"} {
		e.Send("GET", "/api/v1/search?q="+q, "").Reads(http.StatusOK, &found)
		if len(found.Hits) != 1 || found.Hits[0].Title != "k-7" || found.Hits[0].Matched != by {
			t.Errorf("%s: %+v", q, found.Hits)
		}
	}
	var o client.Overview
	e.Send("GET", "/api/v1/overview", "").Reads(http.StatusOK, &o)
	if len(o.Causes) != 1 || o.Causes[0].Next.Operation != "resumeCompensation" || !o.Causes[0].Next.Allowed ||
		*o.Causes[0].Name != "refund" || *o.Causes[0].ID != found.Hits[0].ID || o.Counts.SagasNeedAttention.Count != 1 {
		t.Errorf("what needs a person: %+v", o)
	}
	// A server ends its streams when it stops.
	stopping := make(chan struct{})
	e.Cfg.Stopping = stopping
	live = e.Follow(e.Serve(time.Minute) + "/api/v1/watch?saga=" + id)
	live.States(1)
	close(stopping)
	for !live.Next().Over {
	}
}
