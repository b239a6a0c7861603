package jobdb

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobqueue"
	"github.com/skald-saga/skald/internal/postgres"
)

// When a definition is changed, the same transaction changes the unclaimed runs of its slots
// (jobrun.Following). The definition is locked, so the leader creates no further runs in the
// meantime. The transaction waits for runs that are being claimed, which then remain as they are.

var (
	// unclaimed contains the fields that are read of an unclaimed run.
	unclaimed = runTable.Only("id", "tenant_id", "definition_name", "spec_version", "version", "state", "trigger",
		"scheduled_for", "available_at", "admitted_at", "queue", "idempotency_key", "concurrency_key", "concurrency_policy",
		"created_at")

	// lockUnclaimed locks the unclaimed runs of slots after @since, which it finds by the index of
	// slots, and the first @most runs of earlier slots, which it finds among all waiting runs
	// rather than among all runs that the definition ever had.
	lockUnclaimed = postgres.Named(`
WITH ahead AS MATERIALIZED (
	SELECT r.id FROM jobs.job_runs r
	 WHERE r.definition_id = @definition::uuid
	   AND r.scheduled_for > @since
	   AND r.trigger`+Is(jobrun.ByTime)+`
	   AND NOT r.withdrawn
	   AND r.state || ''`+Is(jobrun.Pending)+`
), behind AS MATERIALIZED (
	SELECT r.id FROM jobs.job_runs r
	 WHERE r.tenant_id = @tenant
	   AND r.phase`+Waits+`
	   AND r.scheduled_for <= @since
	   AND r.definition_id::text = @definition::uuid::text
	   AND r.trigger || ''`+Is(jobrun.ByTime)+`
	 ORDER BY r.scheduled_for, r.id LIMIT @most
)
SELECT `+unclaimed.Selected("r")+`, clock_timestamp()
  FROM (SELECT id FROM ahead UNION ALL SELECT id FROM behind) AS f
  JOIN jobs.job_runs r ON r.id = f.id
 WHERE r.state || ''`+Is(jobrun.Pending)+` ORDER BY r.id FOR NO KEY UPDATE OF r`,
		postgres.Single("tenant", "definition", "since", "most"))

	withdrawn    = runTable.Only("id", "version", "idempotency_key", "finished_at")
	withdrawRuns = postgres.Named(`
UPDATE jobs.job_runs r
   SET state = 'SKIPPED',
       withdrawn = true,
       version = n.version,
       idempotency_key = n.idempotency_key,
       finished_at = n.finished_at,
       updated_at = n.finished_at
  FROM `+postgres.Unnest("n", withdrawn.As("n"))+`
 WHERE r.id = n.id AND r.state || ''`+movableTo(jobrun.Skipped, jobrun.Operator), withdrawn.As("n"))

	followed = runTable.Only("id", "definition_name", "spec_version", "command_name", "version", "available_at",
		"admitted_at", "queue", "priority", "required_labels", "labels", "args", "concurrency_key",
		"concurrency_policy", "timeout_ms", "max_losses", "updated_at", "initiated_by")
	followRuns = postgres.Named(`
UPDATE jobs.job_runs r SET (`+followed.Inserted()+`) = ROW(`+followed.Stored("n")+`)
  FROM `+postgres.Unnest("n", followed.As("n"))+`
 WHERE r.id = n.id AND r.state || ''`+Is(jobrun.Pending), followed.As("n"))
)

// followedAtOnce is roughly how many bytes of arguments one statement stores.
const followedAtOnce = 8 << 20

// follow applies the change to d, which was made by the subject by, to the runs of its slots; d is
// locked. It returns the changed runs, which the caller passes to runsFollowed after the commit.
func (db *DB) follow(
	ctx context.Context, tx *sqlx.Tx, d *jobrun.Definition, set jobrun.Settings, by string,
) (changed []jobrun.Run, err error) {
	runs, now, err := db.unclaimed(ctx, tx, d)
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	m := db.At(now)
	change := jobrun.NewFollowing(d, set, m)
	gone, told := withdrawn.Batch(1), RunEvents{}
	stay, bytes := followed.Batch(1), 0
	store := func() error {
		if stay.Len() == 0 {
			return nil
		}
		err := db.ExecIn(ctx, tx, followRuns.Text, followRuns.Args(stay)...)
		stay, bytes = followed.Batch(1), 0
		return err
	}
	for i := range runs {
		c, err := change.Run(runs[i], by)
		if err != nil {
			return nil, err
		}
		if !c.Changes() {
			continue
		}
		changed = append(changed, c.After)
		row := runRow{Run: &changed[len(changed)-1]}
		if c.After.State.Terminal() {
			gone.Add(&row)
			for _, e := range c.Events {
				told.Add(&c.After, e)
			}
			continue
		}
		sealer := db.Keys.SealerFor(d.TenantID, c.After.ID)
		if row.args, err = postgres.Seal(&sealer, fieldRunArgs, c.After.Args); err != nil {
			return nil, err
		}
		stay.Add(&row)
		if bytes += len(row.args); bytes > followedAtOnce {
			if err := store(); err != nil {
				return nil, err
			}
		}
	}
	if err := store(); err != nil {
		return nil, err
	}
	if gone.Len() > 0 {
		if err := db.ExecIn(ctx, tx, withdrawRuns.Text, withdrawRuns.Args(gone)...); err != nil {
			return nil, err
		}
	}
	return changed, db.PutRunEvents(ctx, tx, &told)
}

// unclaimed locks the unclaimed runs of d's slots; now is the database's time.
func (db *DB) unclaimed(
	ctx context.Context, tx *sqlx.Tx, d *jobrun.Definition,
) (runs []jobrun.Run, now time.Time, err error) {
	rows, err := db.QueryIn(ctx, tx, lockUnclaimed.Text,
		lockUnclaimed.Args(postgres.Values{d.TenantID, d.ID, d.UpdatedAt, jobrun.MaxFollowing})...)
	if err != nil {
		return nil, now, err
	}
	err = postgres.EachRow(rows, func() error {
		var r jobrun.Run
		stored := runRow{Run: &r}
		err := unclaimed.Scan(rows, &stored, &now)
		runs = append(runs, r)
		return err
	})
	return runs, now, err
}

// runsFollowed notifies waiters of runs that ended, workers of runs that became claimable, and the
// leader of runs that it must decide about again.
func (db *DB) runsFollowed(changed []jobrun.Run) {
	told, wanted := map[jobqueue.TenantQueue]struct{}{}, false
	for i := range changed {
		r := &changed[i]
		at := jobqueue.TenantQueue{Tenant: r.TenantID, Queue: r.Queue}
		switch _, known := told[at]; {
		case r.State.Terminal():
			db.RunEnded(r)
		case r.AdmittedAt == nil:
			wanted = true
		case !known:
			told[at] = struct{}{}
			db.Hub.Admitted(at.Tenant, at.Queue)
		}
	}
	if wanted {
		db.Hub.WantLeader()
	}
}
