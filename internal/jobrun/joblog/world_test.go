package joblog_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/jobrun/joblog"
	"github.com/skald-saga/skald/internal/jobrun/logstore"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/secret/envelope"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// world contains a database with ended runs, and a directory for their logs.
type world struct {
	t       *testing.T
	dsn     string
	db      *postgres.DB
	jobs    *jobdb.Jobs
	store   *logstore.Store
	dir     string
	keys    *envelope.Keyring
	said    bytes.Buffer
	tenants []uuid.UUID
	logs    map[uuid.UUID][]jobrun.LogChunk // logs of the runs that were created
	tenant  map[uuid.UUID]uuid.UUID
}

func defaults(context.Context) (jobrun.Settings, error) { return jobrun.NewSettings(1, nil), nil }

func newWorld(t *testing.T, keys *envelope.Keyring) *world {
	t.Helper()
	w := &world{t: t, dsn: testdb.DSN(t), dir: t.TempDir(), keys: keys, tenants: []uuid.UUID{uuid.New(), uuid.New()},
		logs: map[uuid.UUID][]jobrun.LogChunk{}, tenant: map[uuid.UUID]uuid.UUID{}}
	var err error
	if w.db, err = postgres.Open(t.Context(), postgres.Config{DSN: w.dsn, Encryption: keys}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.db.Close)
	w.jobs = jobdb.NewJobs(jobdb.NewDB(w.db, jobrun.Chance{Jitter: rand.Float64, NewID: uuid.New}, nil), defaults)
	w.store = w.open(w.url())
	return w
}

func (w *world) url() string { return "file://" + w.dir }

func (w *world) open(url string) *logstore.Store {
	w.t.Helper()
	s, err := logstore.Open(w.t.Context(), url, logstore.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.Close() })
	return s
}

func (w *world) mover(change ...func(*joblog.Config)) *joblog.Mover {
	cfg := joblog.Config{Store: w.store, Chunks: w.jobs,
		Offloading: jobdb.NewLogs(jobdb.NewDB(w.db, jobrun.Chance{Jitter: rand.Float64, NewID: uuid.New}, nil)),
		Settings:   defaults, Keys: w.keys,
		Log: slog.New(slog.NewTextHandler(&w.said, nil)), Now: time.Now}
	for _, c := range change {
		c(&cfg)
	}
	return joblog.NewMover(cfg)
}

func (w *world) sql(statement string, args ...any) {
	w.t.Helper()
	if _, err := w.db.SQL().ExecContext(w.t.Context(), statement, args...); err != nil {
		w.t.Fatalf("%s: %v", statement, err)
	}
}

// ended creates a run of the tenant that ended the given time ago, with a log.
func (w *world) ended(tenant uuid.UUID, ago time.Duration, chunks ...string) uuid.UUID {
	w.t.Helper()
	id := uuid.New()
	size := 0
	for _, c := range chunks {
		size += len(c)
	}
	w.sql(`INSERT INTO jobs.job_runs (id, tenant_id, definition_id, definition_name, spec_version, command_name, state, trigger, scheduled_for, available_at,
			attempt, idempotency_key, root_run_id, log_bytes, created_at, updated_at, finished_at)
		VALUES ($1::uuid, $2, gen_random_uuid(), 'd', 1, 'c', 'SUCCEEDED', 'MANUAL', now(), now(), 2, gen_random_uuid()::text, $1::uuid, $3, now(), now(), now() - $4 * interval '1 microsecond')`,
		id, tenant, size, ago.Microseconds())
	for i, c := range chunks {
		chunk := jobrun.LogChunk{LogPosition: jobrun.LogPosition{Attempt: 1 + i*2/len(chunks), Seq: i}, Stream: "stdout",
			Body: []byte(c)}
		err := w.db.SQL().QueryRowContext(w.t.Context(), `INSERT INTO jobs.job_run_logs (run_id, tenant_id, attempt, seq, at, stream, body) VALUES ($1, $2, $3, $4, clock_timestamp(), 'stdout', $5) RETURNING at`,
			id, tenant, chunk.Attempt, chunk.Seq, chunk.Body).Scan(&chunk.At)
		if err != nil {
			w.t.Fatal(err)
		}
		chunk.At = chunk.At.UTC()
		w.logs[id] = append(w.logs[id], chunk)
	}
	w.tenant[id] = tenant
	return id
}

func (w *world) run(id uuid.UUID) jobrun.Run {
	w.t.Helper()
	r, err := w.jobs.Run(w.t.Context(), w.tenant[id], id)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// read reads a log from its current location, the store or the database.
func (w *world) read(r *jobrun.Run) (chunks []jobrun.LogChunk, err error) {
	w.t.Helper()
	if r.LogRef == "" {
		return w.jobs.Logs(w.t.Context(), r.TenantID, r.ID, jobrun.LogPosition{}, 10_000)
	}
	stored, err := joblog.Open(w.t.Context(), w.store, w.keys, r)
	if err != nil {
		return nil, err
	}
	defer stored.Close()
	for lines := json.NewDecoder(stored); ; {
		var l jobrun.LogLine
		if err := lines.Decode(&l); errors.Is(err, io.EOF) {
			return chunks, nil
		} else if err != nil {
			return chunks, err
		}
		chunks = append(chunks, l.Content())
	}
}

// whole fails the test unless every log is readable where its run says, and nowhere else (J9).
func (w *world) whole() (moved int) {
	w.t.Helper()
	for id, want := range w.logs {
		r := w.run(id)
		got, err := w.read(&r)
		if err != nil || !slices.EqualFunc(got, want, func(a, b jobrun.LogChunk) bool {
			return a.LogPosition == b.LogPosition && a.At.Equal(b.At) && a.Stream == b.Stream && bytes.Equal(a.Body, b.Body)
		}) {
			w.t.Errorf("run %s, ref %q: %d chunks are read, want %d; %v", id, r.LogRef, len(got), len(want), err)
		}
		var chunks int
		if err := w.db.SQL().QueryRowContext(w.t.Context(), `SELECT count(*) FROM jobs.job_run_logs WHERE run_id = $1`, id).Scan(&chunks); err != nil {
			w.t.Fatal(err)
		}
		if r.LogRef != "" {
			moved++
			if chunks != 0 {
				w.t.Errorf("run %s, ref %q: %d chunks are left", id, r.LogRef, chunks)
			}
			if err := w.store.Verify(w.t.Context(), r.LogRef, [32]byte(r.LogSHA256), w.size(r.LogRef)); err != nil {
				w.t.Errorf("run %s: %v", id, err)
			}
		}
	}
	return moved
}

func (w *world) size(ref string) int64 {
	w.t.Helper()
	info, err := os.Stat(filepath.Join(w.dir, ref))
	if err != nil {
		w.t.Fatal(err)
	}
	return info.Size()
}

// stored lists the objects in the directory.
func (w *world) stored() (refs []string) {
	w.t.Helper()
	err := filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.Contains(path, ".unfinished") {
			refs = append(refs, path)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return refs
}

var _ joblog.Chunks = jobrun.Runs(nil)

// busy returns chunks to which another one is added while they are being read.
type busy struct {
	joblog.Chunks
	db *sql.DB
}

func (b busy) Logs(ctx context.Context, tenant, id uuid.UUID, from jobrun.LogPosition,
	limit int) ([]jobrun.LogChunk, error) {
	chunks, err := b.Chunks.Logs(ctx, tenant, id, from, limit)
	if err == nil {
		_, err = b.db.ExecContext(ctx, `WITH put AS (INSERT INTO jobs.job_run_logs (run_id, tenant_id, attempt, seq, at, body) VALUES ($1, $2, 9, 9, now(), 'late'))
			UPDATE jobs.job_runs SET log_bytes = log_bytes + 4 WHERE id = $1`, id, tenant)
	}
	return chunks, err
}
