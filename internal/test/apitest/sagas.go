package apitest

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/saga"
)

const SagasPath, WorkflowsPath = "/api/v1/sagas", "/api/v1/workflows"

// MissingSaga is the path of a saga that does not exist.
const MissingSaga = SagasPath + "/01234567-89ab-7def-8123-456789abcdef"

// Held starts a saga of the workflow order whose first call waits for the gate.
func Held(t *testing.T, e *Edge, then func(saga.Call) saga.Outcome) (at string, g *gate) {
	t.Helper()
	e.Register("order", "reserve", "pay")
	g = NewGate(then)
	e.Node.Script = g.Script
	s := e.Start(`{"workflow_name":"order"}`)
	<-g.Reached
	return SagasPath + "/" + s.SagaID.String(), g
}

// Saga reads the saga at path.
func (e *Edge) Saga(path string) client.Saga {
	e.T.Helper()
	var s client.Saga
	r := e.Send("GET", path, "")
	if r.Status != http.StatusOK {
		e.T.Fatalf("GET %s: %d %s", path, r.Status, r.Body)
	}
	r.Into(&s)
	return s
}

// Finish starts a saga, which must complete, and returns its path.
func (e *Edge) Finish(body string, header ...string) string {
	e.T.Helper()
	s := e.Start(body, header...)
	e.Node.Rest()
	return SagasPath + "/" + s.SagaID.String()
}

// ArchiveAll archives every saga that has ended.
func (e *Edge) ArchiveAll() client.RetentionResult {
	e.T.Helper()
	var run client.RetentionResult
	r := e.Send("POST", RetentionPath, `{"older_than":"`+e.Cfg.Now().Format(time.RFC3339Nano)+`"}`)
	if r.Status != http.StatusOK {
		e.T.Fatalf("archive: %d %s", r.Status, r.Body)
	}
	r.Into(&run)
	return run
}

// List reads a page of sagas.
func (e *Edge) List(query string) client.SagaList {
	e.T.Helper()
	r := e.Send("GET", SagasPath+"?"+query, "")
	if r.Status != http.StatusOK {
		e.T.Fatalf("list %s: %d %s", query, r.Status, r.Body)
	}
	var list client.SagaList
	r.Into(&list)
	return list
}

// Events reads a page of events.
func (e *Edge) Events(path string) client.AuditEventList {
	e.T.Helper()
	r := e.Send("GET", path, "")
	if r.Status != http.StatusOK {
		e.T.Fatalf("%s: %d %s", path, r.Status, r.Body)
	}
	var list client.AuditEventList
	r.Into(&list)
	return list
}

// Done starts a saga of one step and waits for its end.
func (e *Edge) Done(body string) client.Saga {
	e.T.Helper()
	s := e.Start(body)
	var ended client.Saga
	e.Send("GET", SagasPath+"/"+s.SagaID.String()+"?wait=10s", "").Into(&ended)
	return ended
}

// YamlDefinition is a workflow that uses many of the features of a definition.
const YamlDefinition = `
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

// ErrOutage is the error of a store that can't be reached; it must not reach clients.
var ErrOutage = errors.New("pq: the connection to secret-host:5432 is gone")

// Statistics reads a page of statistics.
func (e *Edge) Statistics(query string) client.SagaStatisticsList {
	e.T.Helper()
	r := e.Send("GET", StatisticsPath+"?"+query, "")
	if r.Status != http.StatusOK {
		e.T.Fatalf("statistics %s: %d %s", query, r.Status, r.Body)
	}
	var list client.SagaStatisticsList
	r.Into(&list)
	return list
}

const RetentionPath = "/api/v1/admin/retention/run"

const StatisticsPath = "/api/v1/statistics/sagas"
