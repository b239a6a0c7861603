package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/lib/pq"
	migrate "github.com/rubenv/sql-migrate"
)

// A migration statement that waits for a lock blocks all later statements on that table, including
// reads. So it waits briefly, gives up, and is retried. It waits for less than PostgreSQL's
// deadlock_timeout (1 s), so that in a deadlock the migration gives up instead of a writer.
const (
	setLockWait = `SET lock_timeout = '900ms'`
	lockTries   = 100
	lockPause   = time.Second
)

// impatient creates connections whose statements wait less than a second for a lock.
type impatient struct{ driver.Connector }

func (c impatient) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.(driver.ExecerContext).ExecContext(ctx, setLockWait, nil); err != nil {
		return nil, errors.Join(fmt.Errorf("limit waits for locks: %w", err), conn.Close())
	}
	return conn, nil
}

// givingWay repeats f as long as it cannot get a lock. Its transaction was rolled back each time.
func givingWay(ctx context.Context, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		switch {
		case !lockedOut(err):
			return err
		case try == lockTries:
			return fmt.Errorf("a table stayed locked through %d attempts; find the session that holds the lock "+
				"(pg_stat_activity, pg_blocking_pids), end it, and migrate again: %w", lockTries, err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(lockPause):
		}
	}
}

// lockedOut reports whether a statement timed out waiting for a lock, or was canceled because of a
// deadlock.
func lockedOut(err error) bool {
	var of *migrate.TxError
	if errors.As(err, &of) { // it has no Unwrap
		err = of.Err
	}
	var e *pq.Error
	return errors.As(err, &e) && (e.Code == "55P03" || e.Code == "40P01")
}
