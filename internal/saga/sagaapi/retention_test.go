package sagaapi_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/ops/storage"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func TestADryRunCountsByWorkflowAndArchivesNothing(t *testing.T) {
	e := apitest.NewEdge(t, func(c *httpapi.Config) {
		c.Sagas.Retention = saga.Retention{Completed: time.Nanosecond, Failed: time.Hour}
	})
	e.Register("order", "reserve")
	e.Node.Script = apitest.Refuse("book", saga.Execute)
	e.Register("trip", "book")
	if r := e.Send("POST", apitest.WorkflowsPath, `{"name":"kept","retention":{"completed_ms":-1},"steps":[`+apitest.StepsJSON("a")+`]}`); r.Status != http.StatusCreated {
		t.Fatalf("register: %d %s", r.Status, r.Body)
	}
	for _, name := range []string{"order", "order", "trip", "kept"} {
		e.Finish(`{"workflow_name":"` + name + `"}`)
	}
	run := func(path, body string) (out client.RetentionResult) {
		t.Helper()
		r := e.Send("POST", path, body)
		if r.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, r.Status, r.Body)
		}
		r.Into(&out)
		return out
	}
	moved := func(n int64) []client.PlannedChange {
		return []client.PlannedChange{{Of: new(client.PlannedChangeOfSaga), Member: "place", From: new("live"),
			To: new("archive"), Count: &n}}
	}
	want := client.RetentionResult{DryRun: true, Workflows: []client.ExpiredSagas{{WorkflowName: "order", Completed: 2}},
		Changes: moved(2)}
	if diff := cmp.Diff(want, run(apitest.RetentionPath+"?dry_run=true", "")); diff != "" {
		t.Errorf("by retention (-want +got):\n%s", diff)
	}
	want.Changes = moved(4)
	want.Workflows = []client.ExpiredSagas{{WorkflowName: "kept", Completed: 1}, {WorkflowName: "order", Completed: 2},
		{WorkflowName: "trip", Failed: 1}}
	if diff := cmp.Diff(want,
		run(apitest.RetentionPath+"?dry_run=true", `{"older_than":"`+e.Cfg.Now().Format(time.RFC3339Nano)+`"}`)); diff != "" {
		t.Errorf("older than now (-want +got):\n%s", diff)
	}
	if got := e.List("archived=true"); len(got.Sagas) > 0 {
		t.Errorf("a dry run archived %d sagas", len(got.Sagas))
	}
	if diff := cmp.Diff(client.RetentionResult{Archived: 2}, run(apitest.RetentionPath, "")); diff != "" {
		t.Errorf("by retention (-want +got):\n%s", diff)
	}
	if got := e.List("archived=true"); len(got.Sagas) != 2 || len(e.List("").Sagas) != 2 {
		t.Errorf("%d sagas are archived, want those of order", len(got.Sagas))
	}
	if got := run(apitest.RetentionPath+"?dry_run=false", `{}`); got.Archived != 0 || got.More || got.Workflows != nil {
		t.Errorf("again: %+v", got)
	}
}

func TestARetentionRunStopsInTimeAndReportsThatMoreIsLeft(t *testing.T) {
	var slow atomic.Bool
	e := apitest.NewEdge(t, func(c *httpapi.Config) {
		c.Sagas.RetentionBatch = 2
		now := c.Now
		var ahead time.Duration
		c.Now = func() time.Time {
			if slow.Load() {
				ahead += 2 * time.Second
			}
			return now().Add(ahead)
		}
	})
	numbered(t, e, 7)
	e.Node.Rest()
	before := `{"older_than":"` + e.Cfg.Now().Format(time.RFC3339Nano) + `"}`
	slow.Store(true)
	var got []string
	for range 3 {
		var run client.RetentionResult
		e.Send("POST", apitest.RetentionPath, before).Into(&run)
		got = append(got, fmt.Sprint(run.Archived, run.More))
	}
	if diff := cmp.Diff([]string{"4 true", "3 true", "0 false"}, got); diff != "" {
		t.Errorf("archived, more (-want +got):\n%s", diff)
	}
}

func TestOlderThanMustBePast(t *testing.T) {
	e := apitest.NewEdge(t)
	for _, at := range []string{"2100-01-01T00:00:00Z", "0001-01-01T00:00:00Z"} {
		p := e.Send("POST", apitest.RetentionPath, `{"older_than":"`+at+`"}`).Wants(http.StatusUnprocessableEntity,
			"REQ_SCHEMA")
		if p.Errors[0].Pointer != "/older_than" {
			t.Errorf("%s: errors %+v", at, p.Errors)
		}
	}
	e.Send("POST", apitest.RetentionPath, `{"older_than":"yesterday"}`).Wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	e.Send("POST", apitest.RetentionPath, `{"older":"x"}`).Wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
}

func TestTheStorageReportComesFromTheStore(t *testing.T) {
	at := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	e := apitest.NewEdge(t, func(c *httpapi.Config) {
		c.Storage = func(context.Context) (storage.Storage, error) {
			return storage.Storage{DatabaseBytes: 9, Tables: []storage.Table{{
				Name: "saga_states", TotalBytes: 8, HeapBytes: 1, ToastBytes: 2, IndexBytes: 3, LiveTuples: 4, DeadTuples: 5,
				ModifiedSinceAnalyze: 6,
				LastVacuum:           &at,
				Indexes: []storage.Index{{Name: "pk", Bytes: 3, Unique: true, Valid: true, Scans: 7, TuplesRead: 8,
					TuplesFetched: 9}},
			}, {Name: "empty"}}}, nil
		}
	})
	var got client.Storage
	e.Send("GET", "/api/v1/admin/storage", "").Into(&got)
	want := client.Storage{DatabaseBytes: 9, Tables: []client.TableUsage{{
		Name: "saga_states", TotalBytes: 8, HeapBytes: 1, ToastBytes: 2, IndexBytes: 3, LiveTuples: 4, DeadTuples: 5,
		ModifiedSinceAnalyze: 6,
		LastVacuum:           &at,
		Indexes: []client.IndexUsage{{Name: "pk", Bytes: 3, Unique: true, Valid: true, Scans: 7, TuplesRead: 8,
			TuplesFetched: 9}},
	}, {Name: "empty", Indexes: []client.IndexUsage{}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if r := apitest.NewEdge(t).Send("GET", "/api/v1/admin/storage", ""); string(r.Body) != `{"database_bytes":0,"tables":[]}`+"\n" {
		t.Errorf("a store without tables: %d %s", r.Status, r.Body)
	}
	broken := apitest.NewEdge(t, func(c *httpapi.Config) {
		c.Storage = func(context.Context) (storage.Storage, error) { return storage.Storage{}, apitest.ErrOutage }
	})
	broken.Send("GET", "/api/v1/admin/storage", "").Wants(http.StatusServiceUnavailable, "SYS_UNAVAILABLE")
}
