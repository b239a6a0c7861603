package participant

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"
)

// Dialect identifies the SQL of a database.
type Dialect string

// The dialects. SQLite allows only one writer at a time: open it with a busy timeout.
const (
	PostgreSQL Dialect = "postgresql"
	MySQL      Dialect = "mysql" // and MariaDB
	SQLite     Dialect = "sqlite"
)

// statements holds the SQL statements of a dialect.
type statements struct {
	migration string
	// claim creates or locks the row of a step. It returns the row's state unless claimIsMute is
	// set.
	claim, read string
	claimIsMute bool // claim returns nothing, so that read must follow
	save        string
	// name inserts a separate row that maps the key of a deferred call to its step.
	name, look string
	find       string // reads that row in a transaction that will write
	// prepare, begin and commit are used with a database of Open, where they are sent together with
	// BEGIN and COMMIT: begin creates the row or waits for it, and if it already existed, read
	// locks it. Values in such a message are literals. The statements are prepared once per
	// connection, so that EXECUTE can reuse the plan.
	prepare, begin, commit string
	purge                  string // at most purgeBatch rows
}

const purgeBatch = 1000

var dialects = map[Dialect]statements{
	PostgreSQL: {
		migration: `CREATE TABLE skald_calls (
    id         varchar(600) COLLATE "C" PRIMARY KEY,
    state      text         NOT NULL,
    changed_at bigint       NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX skald_calls_changed_at ON skald_calls (changed_at);
`,
		claim: `INSERT INTO skald_calls (id, state, changed_at) VALUES ($1, '', $2)
ON CONFLICT (id) DO UPDATE SET changed_at = excluded.changed_at RETURNING state`,
		save: `UPDATE skald_calls SET state = $1 WHERE id = $2`,
		name: `INSERT INTO skald_calls (id, state, changed_at) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET changed_at = excluded.changed_at`,
		look: `SELECT state FROM skald_calls WHERE id = $1`,
		find: `SELECT state FROM skald_calls WHERE id = $1`,
		read: `SELECT state FROM skald_calls WHERE id = $1 FOR UPDATE`,
		prepare: `PREPARE skald_claim_1 (text, bigint) AS
INSERT INTO skald_calls (id, state, changed_at) VALUES ($1, '', $2) ON CONFLICT (id) DO NOTHING;
PREPARE skald_save_1 (text, bigint, text) AS UPDATE skald_calls SET state = $1, changed_at = $2 WHERE id = $3`,
		begin:  `EXECUTE skald_claim_1(%s, %d)`,
		commit: `EXECUTE skald_save_1(%s, %d, %s)`,
		purge: `DELETE FROM skald_calls WHERE id IN
(SELECT id FROM skald_calls WHERE changed_at < $1 ORDER BY changed_at LIMIT 1000 FOR UPDATE SKIP LOCKED)`,
	},
	MySQL: {
		migration: `CREATE TABLE skald_calls (
    id         varchar(600) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,
    state      longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    changed_at bigint NOT NULL,
    INDEX skald_calls_changed_at (changed_at)
) ENGINE = InnoDB;
`,
		claim: `INSERT INTO skald_calls (id, state, changed_at) VALUES (?, '', ?)
ON DUPLICATE KEY UPDATE changed_at = VALUES(changed_at)`,
		claimIsMute: true,
		read:        `SELECT state FROM skald_calls WHERE id = ? FOR UPDATE`,
		save:        `UPDATE skald_calls SET state = ? WHERE id = ?`,
		name: `INSERT INTO skald_calls (id, state, changed_at) VALUES (?, ?, ?)
ON DUPLICATE KEY UPDATE changed_at = VALUES(changed_at)`,
		look:  `SELECT state FROM skald_calls WHERE id = ?`,
		find:  `SELECT state FROM skald_calls WHERE id = ?`,
		purge: `DELETE FROM skald_calls WHERE changed_at < ? ORDER BY changed_at LIMIT 1000`,
	},
	SQLite: {
		migration: `CREATE TABLE skald_calls (
    id         text    PRIMARY KEY,
    state      text    NOT NULL,
    changed_at integer NOT NULL
);
CREATE INDEX skald_calls_changed_at ON skald_calls (changed_at);
`,
		claim: `INSERT INTO skald_calls (id, state, changed_at) VALUES (?, '', ?)
ON CONFLICT (id) DO UPDATE SET changed_at = excluded.changed_at RETURNING state`,
		save: `UPDATE skald_calls SET state = ? WHERE id = ?`,
		name: `INSERT INTO skald_calls (id, state, changed_at) VALUES (?, ?, ?)
ON CONFLICT (id) DO UPDATE SET changed_at = excluded.changed_at`,
		look: `SELECT state FROM skald_calls WHERE id = ?`,
		// A transaction that has read cannot write if another one has written since, so this one
		// writes first.
		find: `UPDATE skald_calls SET changed_at = changed_at WHERE id = ? RETURNING state`,
		purge: `DELETE FROM skald_calls WHERE id IN
(SELECT id FROM skald_calls WHERE changed_at < ? ORDER BY changed_at LIMIT 1000)`,
	},
}

// Migration returns the statements that create the table skald_calls. Add them to the participant's
// migrations. It returns "" for an unknown dialect.
func Migration(d Dialect) string { return dialects[d].migration }

// SQL returns a store that uses the table skald_calls of the database in which the functions write.
// Open PostgreSQL databases with this package's Open: a call then takes no more round trips than
// its function.
func SQL(db *sql.DB, d Dialect) (Store, error) {
	s, known := dialects[d]
	if !known || db == nil {
		return nil, fmt.Errorf("participant: a database and one of the dialects are required, not %q", d)
	}
	return &sqlStore{db, s}, nil
}

type sqlStore struct {
	db *sql.DB
	statements
}

func (q *sqlStore) within(
	ctx context.Context, id string, now time.Time, f func(*sql.Tx, *step) (bool, error),
) error {
	var e errand
	begun := ctx
	if q.begin != "" {
		e.prepare, e.begin = q.prepare, fmt.Sprintf(q.begin, quote(id), now.Unix())
		begun = context.WithValue(ctx, errandKey{}, &e)
	}
	tx, err := q.db.BeginTx(begun, nil)
	if err != nil {
		return &NotApplied{Message: "no transaction: " + err.Error()}
	}
	defer func() { _ = tx.Rollback() }() // no effect after a commit
	var state string
	switch {
	case !e.taken:
		state, err = q.lock(ctx, tx, id, now)
	case e.rows == 0: // the row existed
		err = tx.QueryRowContext(ctx, q.read, id).Scan(&state)
	}
	if err != nil {
		return &NotApplied{Message: "the step cannot be locked: " + err.Error()}
	}
	s, err := decode(state)
	if err != nil {
		return err
	}
	save, err := f(tx, s)
	if err != nil {
		return err
	}
	if !save {
		return nil // only the time of the last call has changed
	}
	after, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if e.taken {
		e.commit = fmt.Sprintf(q.commit, quote(string(after)), now.Unix(), quote(id))
		return tx.Commit()
	}
	if _, err := tx.ExecContext(ctx, q.save, string(after), id); err != nil {
		return fmt.Errorf("the answer cannot be stored: %w", err)
	}
	return tx.Commit()
}

// lock creates the row of a step, or locks it and returns its current state. A concurrent call of
// the step waits here.
func (q *sqlStore) lock(ctx context.Context, tx *sql.Tx, id string, now time.Time) (state string, err error) {
	if !q.claimIsMute {
		err = tx.QueryRowContext(ctx, q.claim, id, now.Unix()).Scan(&state)
		return state, err
	}
	if _, err := tx.ExecContext(ctx, q.claim, id, now.Unix()); err != nil {
		return "", err
	}
	err = tx.QueryRowContext(ctx, q.read, id).Scan(&state)
	return state, err
}

func (q *sqlStore) Purge(ctx context.Context, before time.Time) (n int64, err error) {
	for {
		done, err := q.db.ExecContext(ctx, q.purge, before.Unix())
		if err != nil {
			return n, err
		}
		batch, err := done.RowsAffected()
		n += batch
		if err != nil || batch < purgeBatch {
			return n, err
		}
	}
}
