package leaderdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// Elections is jobrun.Elections on PostgreSQL.
type Elections struct{ db *postgres.DB }

// NewElections returns the elections of db.
func NewElections(db *postgres.DB) *Elections { return &Elections{db} }

// acquireLeader renews the leader's lease or takes over an expired one, in one statement, at the
// database's time (jobrun.md 5b, J-02, S11). The epoch grows with every takeover and never falls,
// because the row is never deleted.
//
// A renewal does not change the epoch, so it waits for no lock. A takeover changes the epoch, and
// therefore waits for the open transactions of the former leader (AsLeader). A standby that finds
// another node leading locks nothing, because a lock would block those transactions.
const acquireLeader = `
WITH seen AS (
	INSERT INTO jobs.schedulers (leader_id, node, started_at, seen_at)
	 VALUES ($1, $2, clock_timestamp(), clock_timestamp())
	ON CONFLICT (leader_id) DO UPDATE SET node = excluded.node, seen_at = excluded.seen_at
), renewed AS (
	UPDATE jobs.leader l SET expires_at = clock_timestamp() + $3 * interval '1 microsecond'
	 WHERE l.name = 'default' AND l.leader_id = $1 AND l.expires_at > clock_timestamp()
	RETURNING l.epoch
), taken AS (
	INSERT INTO jobs.leader AS l (name, leader_id, node, epoch, acquired_at, expires_at)
	SELECT 'default', $1, $2, 1, clock_timestamp(), clock_timestamp() + $3 * interval '1 microsecond'
	 WHERE NOT EXISTS (SELECT FROM renewed)
	   AND NOT EXISTS (SELECT FROM jobs.leader o WHERE o.name = 'default' AND o.expires_at > clock_timestamp())
	ON CONFLICT (name) DO UPDATE
	   SET leader_id = excluded.leader_id, node = excluded.node, epoch = l.epoch + 1, acquired_at = clock_timestamp(),
	       expires_at = clock_timestamp() + $3 * interval '1 microsecond', swept_at = NULL
	 WHERE l.expires_at <= clock_timestamp()
	RETURNING l.epoch
)
SELECT epoch FROM renewed UNION ALL SELECT epoch FROM taken`

// Acquire implements jobrun.Elections. It uses one of the connections for leases, whose statements
// time out after two seconds. After an error it is unknown whether the lease was taken; if it was,
// the next call renews it.
func (st *Elections) Acquire(
	ctx context.Context, id uuid.UUID, node string, ttl time.Duration,
) (t jobrun.Term, leads bool, err error) {
	rows, err := st.db.Query(ctx, st.db.Lease, acquireLeader, []any{id, node, ttl.Microseconds()})
	if err == nil {
		err = postgres.EachRow(rows, func() error {
			t.LeaderID, leads = id, true
			return rows.Scan(&t.Epoch)
		})
	}
	switch {
	case postgres.SQLState(err) == postgres.UniqueViolation: // two nodes are holding the first election concurrently
		return jobrun.Term{}, false, nil
	case err != nil:
		return jobrun.Term{}, false, fmt.Errorf("acquire the leader lease: %w", err)
	}
	return t, leads, nil
}

// StepDown implements jobrun.Elections.
func (st *Elections) StepDown(ctx context.Context, t jobrun.Term) error {
	_, err := st.db.Lease.ExecContext(ctx, `
		UPDATE jobs.leader SET expires_at = clock_timestamp()
		 WHERE name = 'default' AND leader_id = $1 AND epoch = $2 AND expires_at > clock_timestamp()`, t.LeaderID, t.Epoch)
	return postgres.Wrap("step down", err)
}

// ForceResign implements jobrun.Elections.
func (st *Elections) ForceResign(ctx context.Context, by operator.Action) error {
	return postgres.Wrap("force the leader to resign", st.db.InRead(ctx, func(tx *sqlx.Tx) error {
		res, err := tx.ExecContext(ctx, `
			UPDATE jobs.leader SET expires_at = clock_timestamp() WHERE name = 'default' AND expires_at > clock_timestamp()`)
		if err != nil {
			return err
		}
		switch n, err := res.RowsAffected(); {
		case err != nil:
			return err
		case n == 0:
			return jobrun.NoLeader()
		}
		return auditdb.PutAction(ctx, tx, by)
	}))
}

// Standbys that have not been seen for this long are not counted. After an hour they are deleted.
const standbyFor = time.Minute

// Leadership implements jobrun.Elections. Before the first election, only its standbys are set.
func (st *Elections) Leadership(ctx context.Context) (l jobrun.Leadership, err error) {
	l, err = leaderTable.One(st.db.Read.QueryRowContext(ctx, `
		SELECT `+leaderTable.Selected("l")+` FROM jobs.leader l WHERE l.name = 'default'`))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return l, postgres.Wrap("read the leader", err)
	}
	l.Standbys, err = standbyTable.All(st.db.Read.QueryContext(ctx, `
		SELECT `+standbyTable.Selected("s")+` FROM jobs.schedulers s
		 WHERE s.seen_at > clock_timestamp() - $1 * interval '1 microsecond' ORDER BY s.started_at, s.leader_id LIMIT 1000`,
		standbyFor.Microseconds()))
	for i := range l.Standbys {
		s := &l.Standbys[i]
		s.IsLeader = l.Alive && s.LeaderID == l.LeaderID
	}
	return l, postgres.Wrap("list the standbys", err)
}

// Gone implements jobrun.Elections.
func (st *Elections) Gone(ctx context.Context, id uuid.UUID) error {
	_, err := st.db.Lease.ExecContext(ctx, `DELETE FROM jobs.schedulers WHERE leader_id = $1`, id)
	return postgres.Wrap("remove a standby", err)
}

// leaderTable is jobs.leader, and standbyTable is jobs.schedulers. Both are used only for reading.
var leaderTable = postgres.NewTable(
	postgres.UUID("leader_id", func(l *jobrun.Leadership) *uuid.UUID { return &l.LeaderID }),
	postgres.Text("node", func(l *jobrun.Leadership) *string { return &l.Node }),
	postgres.Int("epoch", func(l *jobrun.Leadership) *int64 { return &l.Epoch }),
	postgres.Time("acquired_at", func(l *jobrun.Leadership) *time.Time { return &l.AcquiredAt }),
	postgres.Time("expires_at", func(l *jobrun.Leadership) *time.Time { return &l.ExpiresAt }),
	postgres.TimeOrNil("swept_at", func(l *jobrun.Leadership) **time.Time { return &l.SweptAt }),
	postgres.Bool("alive", func(l *jobrun.Leadership) *bool { return &l.Alive }).
		ReadFrom("l.expires_at > clock_timestamp()"),
)

var standbyTable = postgres.NewTable(
	postgres.UUID("leader_id", func(s *jobrun.Standby) *uuid.UUID { return &s.LeaderID }),
	postgres.Text("node", func(s *jobrun.Standby) *string { return &s.Node }),
	postgres.Time("started_at", func(s *jobrun.Standby) *time.Time { return &s.StartedAt }),
	postgres.Time("seen_at", func(s *jobrun.Standby) *time.Time { return &s.SeenAt }),
)
