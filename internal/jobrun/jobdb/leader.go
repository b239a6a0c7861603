package jobdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

// These are the leader's writes. Each is a transaction that begins by locking the leader's row in
// its term. A takeover waits until that transaction has ended, and if the epoch has already
// changed, nothing is written (J5, S10, F43). An EXISTS in each statement would not suffice: at
// READ COMMITTED it sees the row as of the beginning of the statement, and the takeover may commit
// before the write does.
//
// A leader that stalls within such a transaction must not delay its successor for longer than its
// lease would. Therefore the server ends a statement after leaderStatement and an idle transaction
// after leaderSilence.
const (
	leaderStatement = 10 * time.Second
	leaderSilence   = 2 * time.Second
)

const lockTerm = `
SELECT set_config('statement_timeout', $3, true) || set_config('idle_in_transaction_session_timeout', $4, true)
  FROM jobs.leader l
 WHERE l.name = 'default' AND l.leader_id = $1 AND l.epoch = $2 AND l.expires_at > clock_timestamp()
   FOR KEY SHARE OF l`

// AsLeader calls f with a transaction of the writers' connections, during which t remains the
// current term, and commits it unless f fails. Fault: Conflict (CodeNoLeader) if t is over.
func (db *DB) AsLeader(ctx context.Context, t jobrun.Term, f func(*sqlx.Tx) error) error {
	stmt, err := db.Prepared(ctx, db.Write, lockTerm)
	if err != nil {
		return err
	}
	return db.InWrite(ctx, func(tx *sqlx.Tx) error {
		var set string
		err := tx.StmtxContext(ctx, stmt).QueryRowContext(ctx, t.LeaderID, t.Epoch,
			fmt.Sprint(leaderStatement.Milliseconds()), fmt.Sprint(leaderSilence.Milliseconds())).Scan(&set)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.New(fault.Conflict, jobrun.CodeNoLeader, "the leader's term with epoch %d is over", t.Epoch)
		}
		if err != nil {
			return err
		}
		return f(tx)
	})
}
