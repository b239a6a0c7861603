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

// ErrSharedSessions is a pooler between Skald and PostgreSQL that gives a connection
// another server session for each transaction, as PgBouncer does with
// pool_mode=transaction. The driver prepares a statement in one round trip and
// runs it in the next, by names that every session has: there it would meet
// those of others, and where the numbers of parameters agree run them.
var ErrSharedSessions = errors.New("a pooler between Skald and PostgreSQL assigns each transaction to a different session (PgBouncer with pool_mode transaction or statement), " +
	"which mixes up prepared statements, so that a wrong one may be executed: " +
	"set pool_mode=session for this database, or connect to PostgreSQL itself (docs/operations.md, PgBouncer)")

const (
	// probes is how many connections are open at once to find out: with fewer, each
	// might reach another process of the pooler, and be alone there.
	probes       = 5
	probePatient = 10 * time.Second
)

// RequireOwnSessions returns nil when each connection has a session of PostgreSQL of its
// own for as long as it is open, ErrSharedSessions when not. Nothing is prepared or
// changed on the way.
//
// The evidence is which session answers. Two connections that are open at the
// same time never have one session, and one connection never has two, unless
// something hands them out anew. A pool of one session, or one that gives the
// last one used first, is found by asking one connection after the other; one
// that takes turns, by asking the same connection twice.
func RequireOwnSessions(ctx context.Context, cfg Config) error {
	cfg.IOTimeout = probePatient // whoever waits for a session is not told of ctx
	cfg.setDefaults()
	base, err := pq.NewConfig(cfg.DSN)
	if err != nil {
		return errAddress
	}
	c := prepare(base.Clone(), cfg, "probe", -1, nil)
	c.config.Runtime = nil // a pooler would refuse what it does not know, before it is known to be one
	c.retired = &atomic.Int64{}
	db := sql.OpenDB(c)
	defer db.Close()

	conns, seen := make([]*sql.Conn, probes), map[string]int{} // session → its connection
	for i := range conns {
		if i == 1 { // the first may have to try several hosts; the others are as near as that
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, probePatient)
			defer cancel()
		}
		if conns[i], err = db.Conn(ctx); err != nil {
			return fmt.Errorf("connect to the database: %w", tooFew(ctx, i, err))
		}
		defer conns[i].Close() //nolint:errcheck // only looked at
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
				// Without parameters: one round trip, so that it works wherever it goes.
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

// tooFew explains a connection that was waited for in vain: a pooler in session
// mode makes those wait for which it has no session.
func tooFew(ctx context.Context, had int, err error) error {
	late := errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) // whichever is first
	if late && had > 0 {
		return fmt.Errorf("PostgreSQL, or the pooler in front of it, opened %d sessions and then no other one for %s; "+
			"a node needs database.max_open_conns and one more at the same time (PgBouncer: default_pool_size): %w", had, probePatient, err)
	}
	return err
}

// startupParameters is what a pooler must let pass or ignore.
const startupParameters = "role,jit,random_page_cost,enable_hashjoin,enable_mergejoin,enable_seqscan,statement_timeout,lock_timeout,idle_in_transaction_session_timeout"

// ExplainRefusal adds to an error what to do when a pooler refuses the settings with
// which connections begin.
func ExplainRefusal(err error) error {
	if err == nil || !strings.Contains(err.Error(), "unsupported startup parameter") {
		return err
	}
	return fmt.Errorf("%w: set ignore_startup_parameters = %s in PgBouncer (docs/operations.md, PgBouncer)", err, startupParameters)
}
