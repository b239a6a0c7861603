package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lib/pq"
)

// ErrSharedSessions means that a pooler between Skald and PostgreSQL assigns a different server
// session to each transaction, as PgBouncer does with pool_mode=transaction. The driver prepares a
// statement in one round trip and runs it in the next, under names that all its sessions use. On a
// shared session it would find another client's statements and, if the numbers of parameters match,
// run them.
var ErrSharedSessions = errors.New("a pooler between Skald and PostgreSQL assigns each transaction to a different session (PgBouncer with pool_mode transaction or statement), " +
	"which mixes up prepared statements, so that a wrong one may be executed: " +
	"set pool_mode=session for this database, or connect to PostgreSQL itself (docs/operations.md, PgBouncer)")

const (
	// probes is how many connections the check opens at once. With fewer, each might reach a
	// different process of the pooler and be the only one there.
	probes       = 5
	probePatient = 10 * time.Second
)

// RequireOwnSessions returns nil if each connection has its own PostgreSQL session for as long as
// it is open, and ErrSharedSessions if not. The check prepares no statements and changes nothing.
//
// It compares which sessions answer. Unless a pooler reassigns sessions, two connections that are
// open at the same time never have the same session, and one connection never has two. A pooler
// that has a single session, or that reuses the most recently used one, is detected by querying one
// connection after the other; a pooler that rotates its sessions is detected by querying the same
// connection twice.
func RequireOwnSessions(ctx context.Context, cfg Config) error {
	cfg.IOTimeout = probePatient // a connection that waits for a session does not notice when ctx ends
	cfg.setDefaults()
	base, err := pq.NewConfig(cfg.DSN)
	if err != nil {
		return errAddress
	}
	c := prepare(base.Clone(), cfg, newLines(nil), "probe", -1, nil)
	c.config.Runtime = nil // a pooler would reject unknown parameters before it is recognized as a pooler
	c.retired = &atomic.Int64{}
	db := sql.OpenDB(c)
	defer db.Close()

	conns, seen := make([]*sql.Conn, probes), map[string]int{} // maps each session to its connection
	for i := range conns {
		if i == 1 { // the first may have to try several hosts; the others go directly to the right one
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, probePatient)
			defer cancel()
		}
		if conns[i], err = db.Conn(ctx); err != nil {
			return fmt.Errorf("connect to the database: %w", tooFew(ctx, i, err))
		}
		defer conns[i].Close() //nolint:errcheck // it only reads
	}
	own := make([]string, probes)
	for round := range 2 {
		for n := range probes {
			i := n
			if round == 1 {
				i = probes - 1 - n
			}
			for range 2 {
				var session string
				// Without parameters, a query takes one round trip, so it works even on a shared session.
				err := conns[i].QueryRowContext(ctx, `SELECT pg_backend_pid() || ' ' || pg_postmaster_start_time()`).Scan(&session)
				if err != nil {
					return fmt.Errorf("query the session id: %w", tooFew(ctx, i, err))
				}
				if by, known := seen[session]; known && by != i || own[i] != "" && own[i] != session {
					return ErrSharedSessions
				}
				seen[session], own[i] = i, session
			}
		}
	}
	return nil
}

// tooFew explains why a connection was not opened in time: a pooler in session mode makes
// connections wait if it has no session left for them.
func tooFew(ctx context.Context, had int, err error) error {
	late := errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) // the earlier one
	if late && had > 0 {
		return &tooFewSessions{fmt.Errorf("PostgreSQL, or the pooler in front of it, opened %d sessions, and no further one "+
			"within %s; a node needs database.max_open_conns plus one at the same time (PgBouncer: default_pool_size): %w",
			had, probePatient, err)}
	}
	return err
}

// startupParameters are the parameters that a pooler must pass on or ignore.
const startupParameters = "role,jit,random_page_cost,enable_hashjoin,enable_mergejoin,enable_seqscan,plan_cache_mode,statement_timeout,lock_timeout,idle_in_transaction_session_timeout"

// ExplainRefusal adds a hint to err if a pooler rejected the startup parameters of a
// connection; it returns other errors unchanged.
func ExplainRefusal(err error) error {
	if err == nil || !strings.Contains(err.Error(), "unsupported startup parameter") {
		return err
	}
	return fmt.Errorf("%w: set ignore_startup_parameters = %s in PgBouncer (docs/operations.md, PgBouncer)", err, startupParameters)
}
