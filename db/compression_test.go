package db_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// Content from clients is compressed with LZ4, until migration 0474 is reverted.
func TestContentOfClientsIsCompressedWithLZ4(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	pool := open(t, dsn)
	methods := `SELECT attrelid::regclass || '.' || attname FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
		WHERE attcompression = 'l' AND relkind = 'r' ORDER BY 1`
	want := []string{
		"dlq.dlq_messages.error_stack", "dlq.dlq_messages.headers",
		"dlq.dlq_messages.payload", "dlq.dlq_messages.payload_raw",
		"jobs.job_runs.args", "jobs.job_runs.checkpoint", "jobs.job_runs.progress", "jobs.job_runs.result",
		"saga.idempotency_answers.body",
		"saga.saga_states.metadata", "saga.saga_states.payload", "saga.saga_states.result_data",
		"saga.saga_step_logs.request_payload", "saga.saga_step_logs.response_payload",
	}
	if diff := cmp.Diff(want, texts(t, pool, methods)); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	back := ask[int](t, pool, `SELECT count(*) FROM saga.saga_schema_version WHERE version >= 474`)
	if _, err := db.Down(t.Context(), dsn, back); err != nil {
		t.Fatal(err)
	}
	if left := texts(t, pool, methods); len(left) > 0 {
		t.Errorf("after going back: %v", left)
	}
	if _, err := db.Up(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, texts(t, pool, methods)); diff != "" {
		t.Errorf("again (-want +got):\n%s", diff)
	}
}
