package httpapi_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/saga"
)

const sagas, workflows = "/api/v1/sagas", "/api/v1/workflows"

// missing is the path of a saga that does not exist.
const missing = sagas + "/01234567-89ab-7def-8123-456789abcdef"

// held starts a saga of workflow order whose first call waits for the gate.
func held(t *testing.T, e *edge, then func(saga.Call) saga.Outcome) (at string, g *gate) {
	t.Helper()
	e.register("order", "reserve", "pay")
	g = newGate(then)
	e.node.script = g.script
	s := e.start(`{"workflow_name":"order"}`)
	<-g.reached
	return sagas + "/" + s.SagaID.String(), g
}

func (e *edge) saga(path string) client.Saga {
	e.t.Helper()
	var s client.Saga
	r := e.send("GET", path, "")
	if r.status != http.StatusOK {
		e.t.Fatalf("GET %s: %d %s", path, r.status, r.body)
	}
	r.into(&s)
	return s
}

// finish starts a saga, which must complete, and returns its path.
func (e *edge) finish(body string, header ...string) string {
	e.t.Helper()
	s := e.start(body, header...)
	e.node.rest()
	return sagas + "/" + s.SagaID.String()
}

// archiveAll archives everything that has ended.
func (e *edge) archiveAll() client.RetentionResult {
	e.t.Helper()
	var run client.RetentionResult
	r := e.send("POST", retention, `{"older_than":"`+e.cfg.Now().Format(time.RFC3339Nano)+`"}`)
	if r.status != http.StatusOK {
		e.t.Fatalf("archive: %d %s", r.status, r.body)
	}
	r.into(&run)
	return run
}

// list reads a page of sagas.
func (e *edge) list(query string) client.SagaList {
	e.t.Helper()
	r := e.send("GET", sagas+"?"+query, "")
	if r.status != http.StatusOK {
		e.t.Fatalf("list %s: %d %s", query, r.status, r.body)
	}
	var list client.SagaList
	r.into(&list)
	return list
}

// events reads a page of events.
func (e *edge) events(path string) client.AuditEventList {
	e.t.Helper()
	r := e.send("GET", path, "")
	if r.status != http.StatusOK {
		e.t.Fatalf("%s: %d %s", path, r.status, r.body)
	}
	var list client.AuditEventList
	r.into(&list)
	return list
}

// done starts a saga of one step and waits for its end.
func (e *edge) done(body string) client.Saga {
	e.t.Helper()
	s := e.start(body)
	var ended client.Saga
	e.send("GET", sagas+"/"+s.SagaID.String()+"?wait=10s", "").into(&ended)
	return ended
}

const yamlDefinition = `
name: order
timeout_ms: 60000
retry: {max_attempts: 5, initial_interval_ms: 200, max_interval_ms: 5000, multiplier: 2.0, jitter: 0.2, retry_on: [timeout, network, unavailable]}
steps:
  - name: reserve-stock
    action:       {http: {method: POST, url: "http://127.0.0.1:9001/reservations", headers: {X-Team: stock}}}
    compensation: {http: {method: POST, url: "http://127.0.0.1:9001/reservations/cancel"}}
    timeout_ms: 2000
    retry: {max_attempts: 3}
  - name: notify
    action: {http: {url: "http://127.0.0.1:9002/notify"}}     # method defaults to POST
    compensation: none
`

var errOutage = errors.New("pq: the connection to secret-host:5432 is gone")

func (e *edge) statistics(query string) client.SagaStatisticsList {
	e.t.Helper()
	r := e.send("GET", sagaStatistics+"?"+query, "")
	if r.status != http.StatusOK {
		e.t.Fatalf("statistics %s: %d %s", query, r.status, r.body)
	}
	var list client.SagaStatisticsList
	r.into(&list)
	return list
}

const retention = "/api/v1/admin/retention/run"

const sagaStatistics = "/api/v1/statistics/sagas"
