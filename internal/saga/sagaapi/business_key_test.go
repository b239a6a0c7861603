package sagaapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func TestABusinessKeyBelongsToOneUnfinishedSaga(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve", "pay")
	g := apitest.NewGate(nil)
	e.Node.Script = g.Script
	body := func(more string) string { return `{"workflow_name":"order","business_key":"order 7"` + more + `}` }
	first := e.Start(body(""))

	taken := e.Send("POST", "/api/v1/sagas", body(""))
	if taken.Status != http.StatusConflict || !strings.Contains(string(taken.Body), "SAGA_BUSINESS_KEY_ACTIVE") ||
		!strings.Contains(string(taken.Body), first.SagaID.String()) {
		t.Errorf("a second saga of the key: %d %s", taken.Status, taken.Body)
	}
	for range 2 { // the second time as a replay of the first
		joined := e.Send("POST", "/api/v1/sagas", body(`,"on_conflict":"return_existing"`), "Idempotency-Key", "k")
		var s client.Saga
		joined.Into(&s)
		if joined.Status/100 != 2 || s.SagaID != first.SagaID || joined.Header.Get("Location") != "/api/v1/sagas/"+
			first.SagaID.String() {
			t.Errorf("joining: %d %s", joined.Status, joined.Body)
		}
	}
	alone := e.Send("POST", "/api/v1/sagas", `{"workflow_name":"order","on_conflict":"return_existing"}`)
	if alone.Status != http.StatusUnprocessableEntity || !strings.Contains(string(alone.Body), "/on_conflict") {
		t.Errorf("on_conflict without a key: %d %s", alone.Status, alone.Body)
	}

	close(g.Open)
	e.Send("GET", "/api/v1/sagas/"+first.SagaID.String()+"?wait=5s", "")
	if next := e.Start(body("")); next.SagaID == first.SagaID {
		t.Error("the business key of an ended saga does not start a new one")
	}
}
