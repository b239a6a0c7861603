package measure

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	definition "github.com/skald-saga/skald/internal/saga/workflow"
)

// GenerateConfig describes how many sagas to generate and where.
type GenerateConfig struct {
	// DatabaseURL names the database; it is migrated first and keeps its content. Required.
	DatabaseURL string
	Sagas       int
	// LogsPerSaga is the number of steps of the workflows, 2 to 8, and so the number of logs of
	// a saga that completes without errors; other sagas have a few more or less.
	LogsPerSaga int
	// Tenant gets four of five sagas. Zero: the default tenant of a server.
	Tenant uuid.UUID
	// Over is the period in which the sagas were created, up to now. Zero: 90 days.
	Over time.Duration
	// WithoutLogs leaves out the step logs.
	WithoutLogs bool
	// Out receives the progress. Nil means that it is not printed.
	Out io.Writer
}

// defaultTenant is the tenant of requests that name none, unless another one is configured.
var defaultTenant = uuid.MustParse("00000000-0000-0000-0000-000000000001")

// otherTenants share the fifth that does not belong to the main tenant.
var otherTenants = []string{
	"0a000000-0000-4000-8000-000000000001", "0a000000-0000-4000-8000-000000000002",
	"0a000000-0000-4000-8000-000000000003", "0a000000-0000-4000-8000-000000000004",
}

// generatedWorkflows are ordered by how often they run.
var generatedWorkflows = []string{
	"order", "payment", "shipment", "return", "refund", "invoice", "subscription", "onboarding", "booking", "transfer",
	"claim", "restock", "payout", "delivery", "exchange", "renewal", "verification", "migration", "settlement", "audit",
}

var generatedSteps = []string{
	"reserve-stock", "charge-payment", "ship-order", "print-label", "notify-customer", "book-courier",
	"update-ledger", "close-order",
}

// generatePieceSize is the number of sagas per transaction.
const generatePieceSize = 20_000

// Generate fills a database with the sagas and step logs that a service leaves in ninety days,
// and updates its statistics. Existing data stays; generating twice creates everything twice.
// All of it is durable on return, and after an error the complete pieces are.
func Generate(ctx context.Context, cfg GenerateConfig) error {
	if cfg.Sagas < 1 || cfg.LogsPerSaga < 2 || cfg.LogsPerSaga > len(generatedSteps) {
		return fmt.Errorf("sagas must be at least 1, and logs per saga must be from 2 to %d", len(generatedSteps))
	}
	if cfg.Tenant == uuid.Nil {
		cfg.Tenant = defaultTenant
	}
	if cfg.Over == 0 {
		cfg.Over = 90 * 24 * time.Hour
	}
	if cfg.Out == nil {
		cfg.Out = io.Discard
	}
	if err := db.Migrate(ctx, cfg.DatabaseURL); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	if err := registerGenerated(ctx, cfg); err != nil {
		return err
	}
	pool, err := sql.Open("postgres", cfg.DatabaseURL)
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	defer pool.Close()
	if err := generatePieces(ctx, pool, cfg); err != nil {
		return err
	}
	return settle(ctx, pool, cfg.Out,
		`VACUUM (ANALYZE) saga.saga_states, saga.saga_step_logs, saga.workflows, saga.workflow_definitions`,
		`SELECT saga.recount_sagas()`,
		`VACUUM (ANALYZE) saga.saga_counts, saga.saga_counts_pending`)
}

// settle prepares a database for measurements after its data was generated.
func settle(ctx context.Context, pool *sql.DB, out io.Writer, statements ...string) error {
	for _, finish := range statements {
		begun := time.Now()
		if _, err := pool.ExecContext(ctx, finish); err != nil {
			return fmt.Errorf("%s: %w", finish, err)
		}
		fmt.Fprintf(out, "%s: %s\n", finish, time.Since(begun).Round(time.Millisecond))
	}
	// Writes the generated data now, not during the first measurements. Logins without the
	// right leave that to PostgreSQL.
	if _, err := pool.ExecContext(ctx, `CHECKPOINT`); err != nil {
		fmt.Fprintf(out, "checkpoint failed: %v\n", err)
	}
	return nil
}

// registerGenerated registers the workflows for every tenant.
func registerGenerated(ctx context.Context, cfg GenerateConfig) error {
	store, err := postgres.Open(ctx, postgres.Config{DSN: cfg.DatabaseURL, Application: "skald-bench"})
	if err != nil {
		return err
	}
	defer store.Close()
	for _, tenant := range append([]string{cfg.Tenant.String()}, otherTenants...) {
		for _, name := range generatedWorkflows {
			def, err := definition.ParseJSON(generatedDefinition(name, cfg.LogsPerSaga), definition.Limits{})
			if err != nil {
				return fmt.Errorf("workflow %s: %w", name, err)
			}
			if _, _, err := sagadb.NewWorkflows(store).Register(ctx, uuid.MustParse(tenant), def, false,
				time.Now()); err != nil {
				return err
			}
		}
	}
	return nil
}

func generatedDefinition(name string, steps int) []byte {
	def := fmt.Appendf(nil, `{"name": %q, "steps": [`, name)
	for i, step := range generatedSteps[:steps] {
		if i > 0 {
			def = append(def, ',')
		}
		def = fmt.Appendf(
			def,
			`{"name": %q, "action": {"http": {"url": "http://127.0.0.1:9/%[1]s"}}, "compensation": {"http": {"url": "http://127.0.0.1:9/%[1]s/undo"}}}`,
			step,
		)
	}
	return append(def, `]}`...)
}

// generatePieces generates the sagas in pieces on two connections, oldest first: their ids then
// increase like those of real ones.
func generatePieces(ctx context.Context, pool *sql.DB, cfg GenerateConfig) error {
	until := time.Now().UTC().Truncate(time.Second)
	var next, made atomic.Int64
	begun := time.Now()
	work := func(ctx context.Context) error {
		conn, err := pool.Conn(ctx)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		defer conn.Close()
		if err := prepareGenerator(ctx, conn); err != nil {
			return err
		}
		for ctx.Err() == nil {
			first := next.Add(generatePieceSize) - generatePieceSize + 1
			last := min(first+generatePieceSize-1, int64(cfg.Sagas))
			if first > last {
				return nil
			}
			if err := generate(ctx, conn, cfg, first, last, until); err != nil {
				return err
			}
			n := made.Add(last - first + 1)
			if n/100_000 != (n-(last-first+1))/100_000 || n == int64(cfg.Sagas) {
				fmt.Fprintf(cfg.Out, "%d of %d sagas after %s\n", n, cfg.Sagas, time.Since(begun).Round(time.Second))
			}
		}
		return ctx.Err()
	}
	return twice(ctx, work)
}

// twice calls work twice concurrently; when one call fails, the context of the other ends.
func twice(ctx context.Context, work func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var workers sync.WaitGroup
	errs := make([]error, 2)
	for i := range errs {
		workers.Go(func() {
			if errs[i] = work(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

func prepareGenerator(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, generateHelpers); err != nil {
		return fmt.Errorf("prepare the generator: %w", err)
	}
	// A superuser can skip the foreign keys, which hold by construction. For other logins they
	// are checked.
	_, err := conn.ExecContext(ctx, `SET session_replication_role = replica`)
	var refused *pq.Error
	if errors.As(err, &refused) && refused.Code == "42501" {
		return nil
	}
	return err
}

// generate generates the sagas first to last in one transaction. A new table that grows with
// every saga needs a statement here.
func generate(ctx context.Context, conn *sql.Conn, cfg GenerateConfig, first, last int64, until time.Time) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	for _, s := range []struct {
		what, text string
		args       []any
	}{
		{"decide", generatePiece, []any{
			first, last, int64(cfg.Sagas), until.Add(-cfg.Over), until, cfg.LogsPerSaga,
			cfg.Tenant, pq.Array(otherTenants), pq.Array(generatedWorkflows),
		}},
		{"store sagas", generateSagas, []any{cfg.LogsPerSaga}},
		{"store step logs", generateLogs, []any{cfg.LogsPerSaga, pq.Array(generatedSteps)}},
	} {
		if cfg.WithoutLogs && s.text == generateLogs {
			continue
		}
		if _, err := tx.ExecContext(ctx, s.text, s.args...); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}
