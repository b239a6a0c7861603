package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/skald-saga/skald/api/client"
)

func TestABusinessKeyIsOneUnfinishedSagas(t *testing.T) {
	e := newEdge(t)
	e.register("order", "reserve", "pay")
	g := newGate(nil)
	e.node.script = g.script
	body := func(more string) string { return `{"workflow_name":"order","business_key":"order 7"` + more + `}` }
	first := e.start(body(""))

	taken := e.send("POST", "/api/v1/sagas", body(""))
	if taken.status != http.StatusConflict || !strings.Contains(string(taken.body), "SAGA_BUSINESS_KEY_ACTIVE") || !strings.Contains(string(taken.body), first.SagaID.String()) {
		t.Errorf("a second saga of the key: %d %s", taken.status, taken.body)
	}
	for range 2 { // the second time as a replay of the first
		joined := e.send("POST", "/api/v1/sagas", body(`,"on_conflict":"return_existing"`), "Idempotency-Key", "k")
		var s client.Saga
		joined.into(&s)
		if joined.status/100 != 2 || s.SagaID != first.SagaID || joined.header.Get("Location") != "/api/v1/sagas/"+first.SagaID.String() {
			t.Errorf("joining: %d %s", joined.status, joined.body)
		}
	}
	alone := e.send("POST", "/api/v1/sagas", `{"workflow_name":"order","on_conflict":"return_existing"}`)
	if alone.status != http.StatusUnprocessableEntity || !strings.Contains(string(alone.body), "/on_conflict") {
		t.Errorf("on_conflict without a key: %d %s", alone.status, alone.body)
	}

	close(g.open)
	e.send("GET", "/api/v1/sagas/"+first.SagaID.String()+"?wait=5s", "")
	if next := e.start(body("")); next.SagaID == first.SagaID {
		t.Error("the key of a saga that has ended does not start another")
	}
}
