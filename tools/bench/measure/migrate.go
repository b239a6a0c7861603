package measure

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/db"
)

// MigrateConfig describes a measurement of migrations on large tables.
type MigrateConfig struct {
	DatabaseURL string // of an empty database, by a login that may create others
	Dir         string // an existing directory; nothing is written to it
	Sagas       int    // in saga_states, in the schema before From
	Letters     int
	Rounds      int    // how often the schema goes back to before From and forth again
	Instances   int    // processes that migrate at the same time
	From        string // the number of the first migration that is measured
	Out         io.Writer
}

// The promises (invariant F58).
const (
	longestPause = time.Second // of a writer while the schema is migrated
	slowerWrites = 3           // times their p99 without a migration
)

// How the writers of a measurement work.
const (
	migrateWriters = 4
	writerPace     = 5 * time.Millisecond
	writersAlone   = 30 * time.Second
)

// Migrate measures what writers notice of migrations on large tables, and that many
// processes may migrate at once, on these tables and in empty databases. It prints both
// to cfg.Out. An error means that a promise is broken.
func Migrate(ctx context.Context, cfg MigrateConfig) error {
	if cfg.Sagas < 1 || cfg.Letters < 1 || cfg.Rounds < 1 || cfg.Instances < 1 {
		return errors.New("sagas, letters, rounds and instances must be at least 1")
	}
	pool, err := sql.Open("postgres", cfg.DatabaseURL)
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	defer pool.Close()
	m := &migration{cfg: cfg, pool: pool}
	for _, phase := range []func(context.Context) error{m.fill, m.underLoad, m.empty} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	return errors.Join(m.missed...)
}

// migration is one run of the measurement.
type migration struct {
	cfg    MigrateConfig
	pool   *sql.DB
	steps  int // migrations from cfg.From on
	ids    []string
	missed []error
}

// fill makes letters in the newest schema and sagas in that before cfg.From.
func (m *migration) fill(ctx context.Context) error {
	url, out := m.cfg.DatabaseURL, m.cfg.Out
	if err := GenerateLetters(ctx, LettersConfig{DatabaseURL: url, Letters: m.cfg.Letters, Out: out}); err != nil {
		return err
	}
	sagas := GenerateConfig{DatabaseURL: url, Sagas: m.cfg.Sagas, LogsPerSaga: 3, Tenant: defaultTenant,
		Over: 90 * 24 * time.Hour, Out: out, WithoutLogs: true}
	if err := registerGenerated(ctx, sagas); err != nil {
		return err
	}
	applied, err := db.Status(ctx, m.pool)
	if err != nil {
		return err
	}
	for _, a := range applied {
		if a.ID >= m.cfg.From {
			m.steps++
		}
	}
	if err := m.back(ctx); err != nil {
		return err
	}
	again, err := m.dropIndexes(ctx)
	if err != nil {
		return err
	}
	if err := generatePieces(ctx, m.pool, sagas); err != nil {
		return err
	}
	if err := settle(ctx, m.pool, out, append(again, `VACUUM (ANALYZE) saga.saga_states`)...); err != nil {
		return err
	}
	rows, err := m.pool.QueryContext(ctx, `SELECT id FROM saga.saga_states WHERE completed_at IS NULL LIMIT 5000`)
	if err != nil {
		return fmt.Errorf("choose sagas to write to: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return err
		}
		m.ids = append(m.ids, id)
	}
	if len(m.ids) == 0 {
		return errors.Join(rows.Err(), errors.New("there are no sagas to write to"))
	}
	var size string
	err = m.pool.QueryRowContext(ctx, `SELECT pg_size_pretty(pg_total_relation_size('saga.saga_states'))`).Scan(&size)
	fmt.Fprintf(out, "saga_states: %d rows, %s\n", m.cfg.Sagas, size)
	return err
}

// dropIndexes drops those that only make queries fast, because making them at the end
// takes a fraction of the time, and returns the statements that make them.
func (m *migration) dropIndexes(ctx context.Context) (again []string, err error) {
	rows, err := m.pool.QueryContext(ctx, `
SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) FROM pg_index i
 WHERE i.indrelid = 'saga.saga_states'::regclass AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = i.indexrelid)`)
	if err != nil {
		return nil, fmt.Errorf("list indexes: %w", err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name, definition string
		if err := rows.Scan(&name, &definition); err != nil {
			return nil, fmt.Errorf("list indexes: %w", err)
		}
		names, again = append(names, name), append(again, definition)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list indexes: %w", err)
	}
	_, err = m.pool.ExecContext(ctx, `DROP INDEX `+strings.Join(names, ", "))
	return again, err
}

// back rolls the schema back to before cfg.From.
func (m *migration) back(ctx context.Context) error {
	n, err := db.Down(ctx, m.cfg.DatabaseURL, m.steps)
	if err == nil && n != m.steps {
		err = fmt.Errorf("%d migrations were reverted, want %d", n, m.steps)
	}
	return err
}

// forth migrates by all instances at once: one applies everything.
func (m *migration) forth(ctx context.Context, url string, steps int) error {
	var all sync.WaitGroup
	done, errs := make([]int, m.cfg.Instances), make([]error, m.cfg.Instances)
	for i := range done {
		all.Go(func() { done[i], errs[i] = db.Up(ctx, url) })
	}
	all.Wait()
	sum := 0
	for _, n := range done {
		if sum += n; n != 0 && n != steps {
			errs = append(errs, fmt.Errorf("a process applied %d of %d migrations", n, steps))
		}
	}
	if sum != steps {
		errs = append(errs, fmt.Errorf("%d migrations were applied, want %d", sum, steps))
	}
	return errors.Join(errs...)
}

// underLoad migrates back and forth under writers.
func (m *migration) underLoad(ctx context.Context) error {
	alone, err := m.writing(ctx, func() error { pause(ctx, writersAlone); return nil })
	if err != nil {
		return err
	}
	m.print("alone", alone)
	var during []time.Duration
	var took time.Duration
	for range m.cfg.Rounds {
		samples, err := m.writing(ctx, func() error {
			begun := time.Now()
			err := m.forth(ctx, m.cfg.DatabaseURL, m.steps)
			took += time.Since(begun)
			return err
		})
		if err != nil {
			return err
		}
		during = append(during, samples...)
		if err := m.back(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(m.cfg.Out, "%d rounds of %d migrations from %s on, by %d processes at once: %s per round on average\n",
		m.cfg.Rounds, m.steps, m.cfg.From, m.cfg.Instances, (took / time.Duration(m.cfg.Rounds)).Round(time.Millisecond))
	m.print("while migrating", during)
	before, now := summarize(alone), summarize(during)
	if now.Max > millis(longestPause) {
		m.missed = append(m.missed, fmt.Errorf("a write waited %.0f ms for a migration", now.Max))
	}
	if now.P99 > slowerWrites*before.P99 {
		m.missed = append(m.missed, fmt.Errorf("the p99 of writes rose from %.1f to %.1f ms", before.P99, now.P99))
	}
	return nil
}

func (m *migration) print(what string, samples []time.Duration) {
	l := summarize(samples)
	fmt.Fprintf(m.cfg.Out, "writers, %s: %d writes, p50 %.1f ms, p99 %.1f ms, max %.1f ms\n",
		what, l.Count, l.P50, l.P99, l.Max)
}

// writing lets writers write while f runs, and returns how long each write took.
func (m *migration) writing(ctx context.Context, f func() error) ([]time.Duration, error) {
	write, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	samples, errs := make([][]time.Duration, migrateWriters), make([]error, migrateWriters)
	for i := range samples {
		all.Go(func() {
			for n := i; write.Err() == nil && errs[i] == nil; n += migrateWriters {
				begun := time.Now()
				errs[i] = m.write(ctx, m.ids[n%len(m.ids)])
				samples[i] = append(samples[i], time.Since(begun))
				pause(write, writerPace)
			}
		})
	}
	err := f()
	stop()
	all.Wait()
	var together []time.Duration
	for _, s := range samples {
		together = append(together, s...)
	}
	return together, errors.Join(append(errs, err)...)
}

// write takes the locks of all writers and changes one saga. A deadlock with a
// migration, which the server resolves, counts as the time that it took.
func (m *migration) write(ctx context.Context, id string) error {
	for {
		// One round trip and, without BEGIN, one transaction.
		_, err := m.pool.ExecContext(ctx, `
LOCK TABLE saga.saga_states, saga.saga_step_logs, saga.audit_events, dlq.dlq_messages, jobs.job_runs IN ROW EXCLUSIVE MODE;
UPDATE saga.saga_states SET updated_at = clock_timestamp() WHERE id = `+pq.QuoteLiteral(id))
		var e *pq.Error
		if !errors.As(err, &e) || e.Code != "40P01" {
			return err
		}
	}
}

// empty migrates empty databases, each by all instances at once.
func (m *migration) empty(ctx context.Context) error {
	own, err := url.Parse(m.cfg.DatabaseURL)
	if err != nil {
		return fmt.Errorf("parse the URL of the database: %w", err)
	}
	applied, err := db.Status(ctx, m.pool)
	if err != nil {
		return err
	}
	for n := range m.cfg.Rounds {
		name := fmt.Sprintf("skald_empty_%d", n)
		other := *own
		other.Path = "/" + name
		if _, err := m.pool.ExecContext(ctx, `CREATE DATABASE `+name); err != nil {
			return fmt.Errorf("create a database: %w", err)
		}
		err := m.forth(ctx, other.String(), len(applied))
		if _, dropErr := m.pool.ExecContext(ctx, `DROP DATABASE `+name+` WITH (FORCE)`); dropErr != nil {
			err = errors.Join(err, dropErr)
		}
		if err != nil {
			return fmt.Errorf("empty database %d: %w", n, err)
		}
	}
	fmt.Fprintf(m.cfg.Out, "%d empty databases were each migrated by %d processes at once\n", m.cfg.Rounds, m.cfg.Instances)
	return nil
}
