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

// ErrSharedSessions means that a pooler between Skald and PostgreSQL assigns another
// server session to each transaction, as PgBouncer does with pool_mode=transaction. The
// driver prepares a statement in one round trip and runs it in the next, under names
// that all its sessions use: on a shared session it would find another client's
// statements and, where the numbers of parameters agree, run those.
var ErrSharedSessions = errors.New("a pooler between Skald and PostgreSQL assigns each transaction to a different session (PgBouncer with pool_mode transaction or statement), " +
	"which mixes up prepared statements, so that a wrong one may be executed: " +
	"set pool_mode=session for this database, or connect to PostgreSQL itself (docs/operations.md, PgBouncer)")

const (
	// probes is how many connections are open at once for the check: with fewer, each might
	// reach a different process of the pooler and be alone there.
	probes       = 5
	probePatient = 10 * time.Second
)

// RequireOwnSessions returns nil when each connection has a PostgreSQL session of its
// own for as long as it is open, and ErrSharedSessions when not. The check prepares and
// changes nothing.
//
// It compares which sessions answer. Two connections that are open at the same time
// never have the same session, and one connection never has two, unless a pooler
// reassigns them. A pooler with a single session, or one that reuses the most recently
// used session, is found by querying one connection after the other; one that rotates
// its sessions, by querying the same connection twice.
func RequireOwnSessions(ctx context.Context, cfg Config) error {
	cfg.IOTimeout = probePatient // a connection that waits for a session does not notice the end of ctx
	cfg.setDefaults()
	base, err := pq.NewConfig(cfg.DSN)
	if err != nil {
		return errAddress
	}
	c := prepare(base.Clone(), cfg, newLines(nil), "probe", -1, nil)
	c.config.Runtime = nil // a pooler would reject unknown parameters before it is recognized as one
	c.retired = &atomic.Int64{}
	db := sql.OpenDB(c)
	defer db.Close()

	conns, seen := make([]*sql.Conn, probes), map[string]int{} // session → its connection
	for i := range conns {
		if i == 1 { // the first may have to try several hosts; the others go straight to the right one
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
				// Without parameters it takes one round trip, so it works even on a shared session.
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

// tooFew explains a connection that was not opened in time: a pooler in session mode
// makes connections wait when it has no session left for them.
func tooFew(ctx context.Context, had int, err error) error {
	late := errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) // whichever is first
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
