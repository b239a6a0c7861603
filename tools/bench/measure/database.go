package measure

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lib/pq"
)

// database reads what the server wrote. Nothing here writes to it.
type database struct {
	pool *sql.DB
	// postmaster is the server's process, or 0 when it runs elsewhere.
	postmaster int
	version    string
	settings   map[string]string
}

// openDatabase connects, and refuses a database that is not durable.
func openDatabase(ctx context.Context, url string) (*database, error) {
	pool, err := sql.Open("postgres", url)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	pool.SetMaxOpenConns(1)
	d := &database{pool: pool}
	if err := errors.Join(d.checkDurable(ctx), d.findPostmaster(ctx, hostProc)); err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return d, nil
}

func (d *database) close() { _ = d.pool.Close() }

func (d *database) checkDurable(ctx context.Context) error {
	if err := d.pool.QueryRowContext(ctx, "SHOW server_version").Scan(&d.version); err != nil {
		return fmt.Errorf("read the database's version: %w", err)
	}
	d.settings = map[string]string{}
	var off []error
	for _, name := range durableSettings {
		var value string
		if err := d.pool.QueryRowContext(ctx, "SELECT current_setting($1)", name).Scan(&value); err != nil {
			return fmt.Errorf("read the database's settings: %w", err)
		}
		d.settings[name] = value
		if value != "on" {
			off = append(off, fmt.Errorf("the database is not durable: %s is %s", name, value))
		}
	}
	return errors.Join(off...)
}

// findPostmaster finds the postmaster from the process that serves this connection, if it runs
// on this machine.
func (d *database) findPostmaster(ctx context.Context, proc procfs) error {
	var backend int
	var local bool
	err := d.pool.QueryRowContext(ctx, `
SELECT pg_backend_pid(), coalesce(inet_server_addr() <<= '127.0.0.0/8' OR inet_server_addr() = '::1', true)`,
	).Scan(&backend, &local)
	if err != nil {
		return fmt.Errorf("find the database's process: %w", err)
	}
	if !local {
		return nil
	}
	// Behind a port that is forwarded to a container, the pid belongs to another namespace.
	if found, err := proc.process(backend); err == nil && found.name == "postgres" {
		d.postmaster = found.parent
	}
	return nil
}

// counters are running totals of the whole database server.
type counters struct {
	wal          int64 // bytes ever written
	updates, hot int64 // rows of saga_states updated, and updated in place
}

// counters reads the running totals. PostgreSQL publishes row counts with up to a second of delay per
// connection, so only their ratio over seconds of load is meaningful.
func (d *database) counters(ctx context.Context) (counters, error) {
	var c counters
	err := d.pool.QueryRowContext(ctx, `
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint, n_tup_upd, n_tup_hot_upd
  FROM pg_stat_user_tables WHERE schemaname = 'saga' AND relname = 'saga_states'`,
	).Scan(&c.wal, &c.updates, &c.hot)
	if err != nil {
		return counters{}, fmt.Errorf("read the database's counters: %w", err)
	}
	return c, nil
}

// wal is how many bytes the server has ever written to its log.
func (d *database) wal(ctx context.Context) (bytes int64, err error) {
	err = d.pool.QueryRowContext(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint`).Scan(&bytes)
	if err != nil {
		return 0, fmt.Errorf("read the size of the log: %w", err)
	}
	return bytes, nil
}

const (
	// lookupChunk is how many sagas one query looks up by key.
	lookupChunk = 2000
	// endedPoll is how often the first saga that has not ended is read: rarely, because the
	// database is being measured.
	endedPoll = 50 * time.Millisecond
)

// awaitEnded returns when every saga with one of these ids has ended, or when ctx ends. It
// checks them in order and never reads an ended one again, so that polling costs the database
// little.
func (d *database) awaitEnded(ctx context.Context, ids []string, alive func() error) error {
	ended := 0
	for chunk := range slices.Chunk(ids, lookupChunk) {
		for {
			var missing int
			err := d.pool.QueryRowContext(ctx, `
SELECT cardinality($1::uuid[]) - count(*) FROM saga.saga_states
 WHERE id = ANY($1::uuid[]) AND completed_at IS NOT NULL`,
				pq.Array(chunk),
			).Scan(&missing)
			if err == nil {
				err = alive()
			}
			if ctx.Err() != nil {
				return fmt.Errorf("LOST: of %d accepted sagas, %d have not ended in time", len(ids), len(ids)-ended)
			}
			if err != nil {
				return fmt.Errorf("wait for %d sagas to end: %w", len(ids), err)
			}
			if missing == 0 {
				break
			}
			pause(ctx, endedPoll)
		}
		ended += len(chunk)
	}
	return nil
}

// outcome describes what the database contains about a set of sagas.
type outcome struct {
	states  map[int]int // how many per state
	lastEnd time.Time
	// endToEnd has the time from creation to end for each saga.
	endToEnd []time.Duration
	// executed and compensated count successful step logs.
	executed, compensated int
}

// outcome looks up all ids.
func (d *database) outcome(ctx context.Context, ids []string) (outcome, error) {
	o := outcome{states: map[int]int{}}
	for chunk := range slices.Chunk(ids, lookupChunk) {
		if err := d.addHeads(ctx, &o, chunk); err != nil {
			return outcome{}, err
		}
		var executed, compensated int
		err := d.pool.QueryRowContext(ctx, `
SELECT count(*) FILTER (WHERE action = 'EXECUTE'), count(*) FILTER (WHERE action = 'COMPENSATE')
  FROM saga.saga_step_logs WHERE saga_id = ANY($1::uuid[]) AND status = 'SUCCESS'`,
			pq.Array(chunk),
		).Scan(&executed, &compensated)
		if err != nil {
			return outcome{}, fmt.Errorf("count step logs: %w", err)
		}
		o.executed += executed
		o.compensated += compensated
	}
	return o, nil
}

func (d *database) addHeads(ctx context.Context, o *outcome, ids []string) error {
	rows, err := d.pool.QueryContext(ctx, `
SELECT state, created_at, completed_at FROM saga.saga_states WHERE id = ANY($1::uuid[])`, pq.Array(ids))
	if err != nil {
		return fmt.Errorf("look up sagas: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var state int
		var created time.Time
		var completed sql.NullTime
		if err := rows.Scan(&state, &created, &completed); err != nil {
			return fmt.Errorf("look up sagas: %w", err)
		}
		o.states[state]++
		if !completed.Valid {
			continue
		}
		o.endToEnd = append(o.endToEnd, completed.Time.Sub(created))
		if completed.Time.After(o.lastEnd) {
			o.lastEnd = completed.Time
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("look up sagas: %w", err)
	}
	return nil
}

// check describes what is wrong when the accepted sagas of flow did not all end as expected.
func (o outcome) check(flow workflow, accepted int) error {
	var errs []error
	undone, executed, compensated := 0, accepted*flow.executed, accepted*flow.compensated
	if third := flow.undoneThird; third != nil {
		// The participant counts the calls of the warm-up as well, so that one more or less may be refused.
		if undone = o.states[third.wantState]; undone < accepted/3-1 || undone > accepted/3+1 {
			errs = append(errs, fmt.Errorf("WRONG: %d of %d sagas were compensated, want a third", undone, accepted))
		}
		executed += undone * (third.executed - flow.executed)
		compensated += undone * (third.compensated - flow.compensated)
	}
	if o.states[flow.wantState] != accepted-undone {
		errs = append(errs, fmt.Errorf("LOST: of %d accepted sagas, only %d are in state %d; the states are %v",
			accepted, o.states[flow.wantState], flow.wantState, o.states))
	}
	if o.executed != executed || o.compensated != compensated {
		errs = append(errs, fmt.Errorf("WRONG: %d sagas logged %d executed and %d compensated steps, want %d and %d",
			accepted, o.executed, o.compensated, executed, compensated))
	}
	return errors.Join(errs...)
}

// pause waits for d, or until ctx ends if that is sooner.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// durableSettings must all be on; otherwise the rates are not those of a durable database.
var durableSettings = []string{"fsync", "synchronous_commit", "full_page_writes"}
