package chaos

import (
	"context"
	"database/sql"
	"time"
)

// historySchema creates triggers that record what happens in the database, in the same transaction:
// every state change of a run, every leader, and the leader at each decision. Skald doesn't know
// about these triggers.
const historySchema = `
LOCK TABLE jobs.leader IN SHARE ROW EXCLUSIVE MODE; -- who leads already is noted once
CREATE SCHEMA chaos;
CREATE TABLE chaos.moves (
	n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, run_id uuid NOT NULL, at timestamptz NOT NULL, version bigint NOT NULL,
	old_state text, state text NOT NULL, attempt int NOT NULL, worker uuid, token uuid, epoch bigint, continuation text NOT NULL,
	old_continuation text, old_lease timestamptz, old_deadline timestamptz, old_token uuid, key text, finished boolean NOT NULL);
CREATE TABLE chaos.leaders (
	n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL, epoch bigint NOT NULL, leader uuid NOT NULL, node text NOT NULL, round boolean NOT NULL);
CREATE TABLE chaos.decisions (event_id bigint PRIMARY KEY, leader uuid, epoch bigint);

CREATE FUNCTION chaos.note_move() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
	INSERT INTO chaos.moves (run_id, at, version, old_state, state, attempt, worker, token, epoch, continuation, old_continuation, old_lease, old_deadline, old_token, key, finished)
	VALUES (NEW.id, clock_timestamp(), NEW.version, CASE TG_OP WHEN 'UPDATE' THEN OLD.state END, NEW.state, NEW.attempt, NEW.assigned_worker_id, NEW.lease_token,
		NEW.leader_epoch, NEW.continuation_state, CASE TG_OP WHEN 'UPDATE' THEN OLD.continuation_state END, CASE TG_OP WHEN 'UPDATE' THEN OLD.lease_expires_at END,
		CASE TG_OP WHEN 'UPDATE' THEN OLD.continuation_check_deadline_at END, CASE TG_OP WHEN 'UPDATE' THEN OLD.lease_token END, NEW.concurrency_key, NEW.finished_at IS NOT NULL);
	RETURN NULL;
END $$;
CREATE TRIGGER chaos_born AFTER INSERT ON jobs.job_runs FOR EACH ROW EXECUTE FUNCTION chaos.note_move();
CREATE TRIGGER chaos_moved AFTER UPDATE ON jobs.job_runs FOR EACH ROW
	WHEN (OLD.version <> NEW.version OR OLD.state <> NEW.state OR OLD.attempt <> NEW.attempt OR OLD.lease_token IS DISTINCT FROM NEW.lease_token
	      OR OLD.continuation_state <> NEW.continuation_state OR OLD.assigned_worker_id IS DISTINCT FROM NEW.assigned_worker_id)
	EXECUTE FUNCTION chaos.note_move();

INSERT INTO chaos.leaders (at, epoch, leader, node, round) SELECT clock_timestamp(), epoch, leader_id, node, false FROM jobs.leader;

CREATE FUNCTION chaos.note_leader() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
	IF TG_OP = 'INSERT' OR OLD.epoch <> NEW.epoch OR OLD.leader_id <> NEW.leader_id OR OLD.swept_at IS DISTINCT FROM NEW.swept_at THEN
		INSERT INTO chaos.leaders (at, epoch, leader, node, round)
		VALUES (clock_timestamp(), NEW.epoch, NEW.leader_id, NEW.node, TG_OP = 'UPDATE' AND OLD.epoch = NEW.epoch AND OLD.leader_id = NEW.leader_id);
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER chaos_led AFTER INSERT OR UPDATE ON jobs.leader FOR EACH ROW EXECUTE FUNCTION chaos.note_leader();

CREATE FUNCTION chaos.note_decision() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
	INSERT INTO chaos.decisions (event_id, leader, epoch)
	SELECT NEW.id, l.leader_id, l.epoch FROM jobs.leader l WHERE l.name = 'default';
	RETURN NULL;
END $$;
CREATE TRIGGER chaos_decided AFTER INSERT ON jobs.job_run_events FOR EACH ROW WHEN (NEW.epoch > 0) EXECUTE FUNCTION chaos.note_decision();`

// move is one change of a run as seen by the database.
type move struct {
	n                     int64
	run                   string
	at                    time.Time
	version               int64
	from, to              string // from "": the run was created
	attempt               int
	worker, token         string
	oldToken              string
	epoch                 int64
	continuation, before  string
	oldLease, oldDeadline time.Time // zero: none
	key                   string
	finished              bool
}

// transitions returns the transitions that a change of the row represents: a claim that starts its
// run also assigns it (decision 0167). The second transition knows only the state that the change
// left behind.
func (m move) transitions() []move {
	if m.to != "RUNNING" || m.from != "PENDING" && m.from != "ORPHANED" {
		return []move{m}
	}
	assigned, started := m, m
	assigned.to, assigned.version = "ASSIGNED", m.version-1
	started.from, started.before, started.oldToken = "ASSIGNED", m.continuation, m.token
	started.oldLease, started.oldDeadline = time.Time{}, time.Time{}
	return []move{assigned, started}
}

// leaderTerm records that a node starts to lead or, if round is set, that the leader has completed
// a sweep.
type leaderTerm struct {
	at     time.Time
	epoch  int64
	leader string
	node   string
	round  bool
}

func (r *jobRecord) readHistory(ctx context.Context, db *sql.DB) error {
	err := each(ctx, db, `
		SELECT n, run_id, at, version, coalesce(old_state, ''), state, attempt, coalesce(worker::text, ''), coalesce(token::text, ''), coalesce(old_token::text, ''),
		       coalesce(epoch, 0), continuation, coalesce(old_continuation, ''), coalesce(old_lease, '0001-01-01Z'), coalesce(old_deadline, '0001-01-01Z'), coalesce(key, ''), finished
		  FROM chaos.moves ORDER BY n`, func(rows *sql.Rows) error {
		var m move
		err := rows.Scan(&m.n, &m.run, &m.at, &m.version, &m.from, &m.to, &m.attempt, &m.worker, &m.token, &m.oldToken,
			&m.epoch, &m.continuation, &m.before, &m.oldLease, &m.oldDeadline, &m.key, &m.finished)
		r.moves = append(r.moves, m.transitions()...)
		return err
	})
	if err != nil {
		return err
	}
	return each(
		ctx,
		db,
		`SELECT at, epoch, leader, node, round FROM chaos.leaders ORDER BY n`,
		func(rows *sql.Rows) error {
			var l leaderTerm
			err := rows.Scan(&l.at, &l.epoch, &l.leader, &l.node, &l.round)
			r.reigns = append(r.reigns, l)
			return err
		},
	)
}

// each calls f for every row of a query's result.
func each(ctx context.Context, db *sql.DB, query string, f func(*sql.Rows) error) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
