package db_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// oldLetters stores n letters. The i-th ended 40 days and i minutes ago and has the payload {"n":
// i}.
func oldLetters(t *testing.T, pool *sql.DB, n int) {
	t.Helper()
	execute(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message, payload, retry_count, status, resolution, terminal_at)
		SELECT 'orders', 'refused', jsonb_build_object('n', i), 1, CASE WHEN i % 2 = 0 THEN 'RESOLVED' ELSE 'DEAD' END,
		       CASE WHEN i % 2 = 0 THEN 'REDRIVEN' ELSE 'DISCARDED' END, now() - interval '40 days' - i * interval '1 minute' FROM generate_series(1, $1::int) AS i`, n)
}

// letters returns where each letter is: n → status, live and archived.
func letters(t *testing.T, pool *sql.DB) (live, archived map[string]string) {
	t.Helper()
	read := func(table string) map[string]string {
		out := map[string]string{}
		for _, line := range texts(t, pool, `SELECT format('%s %s', payload->>'n', status) FROM dlq.`+table) {
			n, status, _ := strings.Cut(line, " ")
			if out[n] != "" {
				t.Errorf("%s has %s twice", table, n)
			}
			out[n] = status
		}
		return out
	}
	live, archived = read("dlq_messages"), read("dlq_messages_archive")
	for n := range live {
		if archived[n] != "" {
			t.Errorf("%s is live and archived", n)
		}
	}
	return live, archived
}

func archiveOldLetters(t *testing.T, pool *sql.DB) {
	t.Helper()
	execute(t, pool, `CALL dlq.archive_old_dlq_messages()`)
}

func all(n int) map[string]bool {
	out := map[string]bool{}
	for i := range n {
		out[fmt.Sprint(i+1)] = true
	}
	return out
}

// wantAll fails unless each of the n letters is in exactly one of the places.
func wantAll(t *testing.T, n int, live, archived map[string]string) {
	t.Helper()
	have := all(0)
	for k := range maps.Keys(live) {
		have[k] = true
	}
	for k := range maps.Keys(archived) {
		have[k] = true
	}
	if diff := cmp.Diff(all(n), have); diff != "" || len(live)+len(archived) != n {
		t.Errorf("letters (-stored +found):\n%s", diff)
	}
}

// Defect B1, first situation: a row that another transaction has locked is skipped.
func TestALockedLetterIsNotArchivedAndNotLost(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	oldLetters(t, pool, 5)
	tx, err := pool.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it has committed by then
	if _, err := tx.ExecContext(t.Context(), `SELECT 1 FROM dlq.dlq_messages WHERE payload->>'n' = '3' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	archiveOldLetters(t, pool)
	live, archived := letters(t, pool)
	wantAll(t, 5, live, archived)
	if len(live) != 1 || live["3"] == "" {
		t.Errorf("live: %v, want the locked one", live)
	}
	// Third situation: the next run archives it, and no run ever gets stuck.
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	archiveOldLetters(t, pool)
	archiveOldLetters(t, pool)
	if live, archived = letters(t, pool); len(live) != 0 || len(archived) != 5 {
		t.Errorf("afterwards %d live, %d archived", len(live), len(archived))
	}
}

// Defect B1, second situation: an operator reopens a letter while the archive runs.
func TestALetterThatIsReopenedMeanwhileStaysLive(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	oldLetters(t, pool, 5)
	tx, err := pool.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it has committed
	if _, err := tx.ExecContext(t.Context(), `UPDATE dlq.dlq_messages SET status = 'PENDING', retry_count = 0 WHERE payload->>'n' = '1'`); err != nil {
		t.Fatal(err)
	}
	archiveOldLetters(t, pool)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	archiveOldLetters(t, pool)
	live, archived := letters(t, pool)
	wantAll(t, 5, live, archived)
	if diff := cmp.Diff(map[string]string{"1": "PENDING"}, live); diff != "" {
		t.Errorf("live (-want +got):\n%s", diff)
	}
}

// Defect B1, fourth situation: concurrent archivers, while letters are reopened.
func TestArchiversAtOnceLoseNoLetter(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	const n = 20_000
	oldLetters(t, pool, n)
	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() {
			if _, err := pool.ExecContext(t.Context(), `CALL dlq.archive_old_dlq_messages(p_retention_days := 30, p_batch_size := 500)`); err != nil {
				t.Errorf("archive: %v", err)
			}
		})
	}
	workers.Go(func() {
		for i := range 40 {
			if _, err := pool.ExecContext(t.Context(), `UPDATE dlq.dlq_messages SET status = 'PENDING', retry_count = 0
				WHERE id = (SELECT id FROM dlq.dlq_messages WHERE status = 'DEAD' AND (payload->>'n')::int % 40 = $1 LIMIT 1 FOR UPDATE SKIP LOCKED)`, i); err != nil {
				t.Errorf("re-open: %v", err)
			}
		}
	})
	workers.Wait()
	live, archived := letters(t, pool)
	wantAll(t, n, live, archived)
	for k, status := range live {
		if status != "PENDING" {
			t.Errorf("%s is live and %s", k, status)
		}
	}
}

// Seed 3, section 主要クエリパターン: its statements, D-45 to D-49.
func TestSeed3sStatementsRunByHand(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	execute(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message, payload) VALUES ('orders', 'refused', '{"n": 1}')`)
	fetched := texts(t, pool, `SELECT id FROM dlq.dlq_messages
		WHERE status = 'PENDING' AND retry_count < max_retries ORDER BY created_at ASC LIMIT 10 FOR UPDATE SKIP LOCKED`)
	if len(fetched) != 1 {
		t.Fatalf("fetched %v", fetched)
	}
	const failed = `UPDATE dlq.dlq_messages SET retry_count = retry_count + 1,
		status = CASE WHEN retry_count + 1 >= max_retries THEN 'DEAD' ELSE 'PENDING' END WHERE id = $1`
	state := func() string {
		return ask[string](t, pool, `SELECT format('%s %s token=%s terminal=%s resolution=%s', status, retry_count, retry_token IS NOT NULL, terminal_at IS NOT NULL, resolution) FROM dlq.dlq_messages`)
	}
	for _, want := range []string{"PENDING 1 token=f terminal=f resolution=", "PENDING 2 token=f terminal=f resolution=", "DEAD 3 token=f terminal=t resolution=EXHAUSTED"} {
		execute(t, pool, `UPDATE dlq.dlq_messages SET status = 'RETRYING', last_retry_at = NOW() WHERE id = $1`, fetched[0])
		if got := state(); !strings.HasPrefix(got, "RETRYING") || !strings.Contains(got, "token=t") {
			t.Errorf("claimed: %s", got)
		}
		execute(t, pool, failed, fetched[0])
		if got := state(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	execute(t, pool, `UPDATE dlq.dlq_messages SET status = 'RETRYING', last_retry_at = NOW() WHERE id = $1`, fetched[0])
	execute(t, pool, `UPDATE dlq.dlq_messages SET status = 'RESOLVED' WHERE id = $1`, fetched[0])
	if got := ask[string](t, pool, `SELECT format('%s %s %s', original_topic, status, COUNT(*)) FROM dlq.dlq_messages GROUP BY original_topic, status ORDER BY original_topic, status`); got != "orders RESOLVED 1" {
		t.Errorf("overview: %s", got)
	}
}

// Defects B12 and B7: every PENDING letter can be fetched by a query, and editing notes does not
// change its clock.
func TestLettersThatContradictThemselvesAreRefused(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	oldLetters(t, pool, 1)
	before := ask[string](t, pool, `SELECT terminal_at FROM dlq.dlq_messages`)
	execute(t, pool, `UPDATE dlq.dlq_messages SET note = 'seen'`)
	if after := ask[string](t, pool, `SELECT terminal_at FROM dlq.dlq_messages WHERE updated_at > now() - interval '1 minute'`); after != before {
		t.Errorf("a note moved the clock of retention from %s to %s", before, after)
	}
	for _, columns := range []string{
		`(original_topic, error_message, max_retries) VALUES ('t', 'e', 0)`,
		`(original_topic, error_message, retry_count) VALUES ('t', 'e', 4)`,
		`(original_topic, error_message, retry_count) VALUES ('t', 'e', -1)`,
		`(original_topic, error_message, status) VALUES ('t', 'e', 'LOST')`,
		`(original_topic, error_message, status, resolution, terminal_at) VALUES ('t', 'e', 'RESOLVED', 'EXHAUSTED', now())`,
		`(original_topic, error_message, source) VALUES ('t', 'e', 'FAX')`,
		`(original_topic, error_message, error_class) VALUES ('t', 'e', 'ODD')`,
		`(original_topic, error_message, payload_encoding) VALUES ('t', 'e', 'morse')`,
	} {
		_, err := pool.ExecContext(t.Context(), `INSERT INTO dlq.dlq_messages `+columns)
		if e := (*pq.Error)(nil); !errors.As(err, &e) || e.Code != "23514" {
			t.Errorf("%s: %v, want a violated check", columns, err)
		}
	}
}

// Defects B3, B6, B8, B22.
func TestTheArchiveProcedureIsCalledAsItShouldBe(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	oldLetters(t, pool, 4)
	code := func(q interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	}, statement string) string {
		_, err := q.ExecContext(t.Context(), statement)
		if e := (*pq.Error)(nil); errors.As(err, &e) {
			return string(e.Code)
		}
		return fmt.Sprint(err)
	}
	for _, arguments := range []string{`NULL, 1`, `30, NULL`, `30, 0`, `-1, 10`} {
		if got := code(pool, `CALL dlq.archive_old_dlq_messages(`+arguments+`)`); got != "22023" {
			t.Errorf("CALL with %s: %s, want 22023", arguments, got)
		}
	}
	tx, err := pool.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := code(tx, `CALL dlq.archive_old_dlq_messages()`); got != "2D000" {
		t.Errorf("CALL within a transaction: %s, want 2D000 (invalid transaction termination)", got)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if live, _ := letters(t, pool); len(live) != 4 {
		t.Errorf("%d live, want all 4", len(live))
	}
	// Letters that died automatically need a person, so they stay three times as long (B8).
	execute(t, pool, `UPDATE dlq.dlq_messages SET resolution = 'EXHAUSTED' WHERE payload->>'n' = '1'`)
	if moved := ask[int](t, pool, `SELECT dlq.archive_batch(NULL, 30, 100)`); moved != 3 {
		t.Errorf("%d moved, want 3", moved)
	}
	live, archived := letters(t, pool)
	wantAll(t, 4, live, archived)
	if live["1"] == "" {
		t.Errorf("live: %v, want the one that died by itself", live)
	}
	// The archive has its own retention (B6).
	if purged := ask[int](t, pool, `SELECT dlq.purge_dlq_archive()`); purged != 0 {
		t.Errorf("%d purged of a young archive", purged)
	}
	execute(t, pool, `UPDATE dlq.dlq_messages_archive SET archived_at = now() - interval '366 days' WHERE payload->>'n' = '2'`)
	if purged := ask[int](t, pool, `SELECT dlq.purge_dlq_archive()`); purged != 1 {
		t.Errorf("%d purged, want 1", purged)
	}
}

// Defects B4, B5: the archive has every column, and invents no values.
func TestTheArchiveOfLettersHasEveryColumn(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	// txid belongs to the row, not to the letter: a restored letter has a new one.
	const columns = `SELECT format('%s %s %s', column_name, data_type, character_maximum_length) FROM information_schema.columns
		WHERE table_schema = 'dlq' AND table_name = $1 AND column_name NOT IN ('archived_at', 'archive_reason', 'txid') ORDER BY 1`
	if diff := cmp.Diff(texts(t, pool, columns, "dlq_messages"),
		texts(t, pool, columns, "dlq_messages_archive")); diff != "" {
		t.Errorf("columns (-live +archive):\n%s", diff)
	}
	if invented := texts(t, pool, `SELECT column_name FROM information_schema.columns
		WHERE table_schema = 'dlq' AND table_name = 'dlq_messages_archive' AND (column_default IS NOT NULL OR is_identity = 'YES')`); len(invented) > 0 {
		t.Errorf("columns with defaults: %v", invented)
	}
	execute(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message, payload, payload_raw, message_key, headers, status, resolution, terminal_at, labels, terms, correlation_id)
		VALUES ('t', 'e', '{"n": 1}', '\x00ff', '\x01', '\x02', 'RESOLVED', 'MANUAL', now() - interval '31 days', '{a}', '{1,2}', 'c')`)
	before := ask[string](t, pool, `SELECT to_jsonb(m) - 'txid' FROM dlq.dlq_messages m`)
	archiveOldLetters(t, pool)
	if after := ask[string](t, pool, `SELECT to_jsonb(m) - 'archived_at' - 'archive_reason' FROM dlq.dlq_messages_archive m`); after != before {
		t.Errorf("archived as\n%s\nwas\n%s", after, before)
	}
}

// Defect B19: reverting the schema does not delete letters.
func TestAQueueThatIsNotEmptyIsNotDropped(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	pool := open(t, dsn)
	oldLetters(t, pool, 1)
	versions := texts(t, pool, `SELECT version FROM saga.saga_schema_version WHERE version > 100`)
	for range len(versions) {
		if _, err := db.Down(t.Context(), dsn, 1); err != nil && !strings.Contains(err.Error(), "not empty") {
			t.Fatal(err)
		}
	}
	if n := ask[int](t, pool, `SELECT count(*) FROM dlq.dlq_messages`); n != 1 {
		t.Errorf("%d letters are left", n)
	}
}

// D-21 to D-24 and the values of the CHECK constraints.
func TestTheTableOfLettersIsSeed3s(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	want := []string{
		"created_at timestamp with time zone NO now()", "error_message text NO ", "id uuid NO gen_random_uuid()",
		"last_retry_at timestamp with time zone YES ", "max_retries integer NO 3", "original_topic character varying(255) NO ",
		"payload jsonb YES ", "retry_count integer NO 0", "status character varying(50) NO 'PENDING'::character varying",
		"updated_at timestamp with time zone NO now()",
	}
	got := texts(t, pool, `SELECT format('%s %s%s %s %s', column_name, data_type, '(' || character_maximum_length || ')', is_nullable, column_default)
		FROM information_schema.columns WHERE table_schema = 'dlq' AND table_name = 'dlq_messages'
		  AND column_name IN ('id', 'original_topic', 'error_message', 'retry_count', 'max_retries', 'payload', 'status', 'created_at', 'updated_at', 'last_retry_at') ORDER BY 1`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("seed 3's columns (-want +got):\n%s", diff)
	}
	indexes := texts(t, pool, `SELECT indexname FROM pg_indexes WHERE schemaname = 'dlq' AND tablename = 'dlq_messages'`)
	for _, name := range []string{"idx_dlq_messages_original_topic", "idx_dlq_messages_status", "idx_dlq_messages_created_at"} {
		if !slices.Contains(indexes, name) {
			t.Errorf("there is no index %s", name)
		}
	}
	if triggers := texts(t, pool, `SELECT tgname FROM pg_trigger WHERE tgrelid = 'dlq.dlq_messages'::regclass AND NOT tgisinternal`); !slices.Contains(triggers, "trg_dlq_messages_updated_at") {
		t.Errorf("triggers %v", triggers)
	}
	def := ask[string](t, pool, `SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'chk_dlq_messages_status'`)
	for _, part := range []string{"::", "PENDING", "RETRYING", "RESOLVED", "DEAD"} {
		if !strings.Contains(def, part) {
			t.Errorf("chk_dlq_messages_status has no %s: %s", part, def)
		}
	}
	execute(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message, updated_at) VALUES ('t', 'e', now() - interval '1 day')`)
	execute(t, pool, `UPDATE dlq.dlq_messages SET error_message = 'f'`)
	if !ask[bool](t, pool, `SELECT updated_at > now() - interval '1 minute' FROM dlq.dlq_messages`) {
		t.Error("updated_at is not kept")
	}
}
