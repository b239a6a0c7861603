package bulkdb

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagabulk"
	"github.com/skald-saga/skald/internal/saga/sagadb"
)

// decidesAgain is how often a step repeats its decision about a saga that is being changed
// concurrently.
const decidesAgain = 4

// Bulk is a sweep of the leader. It executes the next step of each bulk operation on sagas.
func (st *SagaBulks) Bulk(ctx context.Context, t jobrun.Term, _ jobrun.Settings, limit int) (jobrun.Swept, error) {
	return sagaBulks.step(ctx, st.db, &st.bulks, func(m bulkRef) (jobrun.Swept, error) {
		swept, err := st.bulk(ctx, t, m, min(limit, bulkStep))
		if refused := new(unstorable); errors.As(err, &refused) {
			// One of the changes cannot be stored. The sagas are processed one by one to find it.
			return st.bulk(ctx, t, m, 1)
		}
		return swept, err
	})
}

// unstorable is the error of a step with a change whose content the database rejects.
type unstorable struct{ why *fault.Error }

func (u *unstorable) Error() string { return u.why.Error() }

// bulk processes the next sagas of one bulk operation and stores its progress, in one transaction.
// A node that dies leaves either both or neither. A leader whose term is over, or that comes
// second, writes nothing.
func (st *SagaBulks) bulk(ctx context.Context, t jobrun.Term, m bulkRef, limit int) (jobrun.Swept, error) {
	b, now, err := st.at(ctx, m.Tenant, m.ID)
	if err != nil || b.State != bulk.Running {
		return jobrun.Swept{}, err
	}
	if b.Unreadable {
		return jobrun.Swept{}, errDamaged
	}
	room := b.Room(now, limit)
	if room < 1 {
		return jobrun.Swept{}, nil
	}
	ids, cursor, more, err := st.next(ctx, m.Tenant, &b, room)
	if err != nil {
		return jobrun.Swept{}, err
	}
	all, err := bulkFound(&b.Head, b.Matched, len(ids), func() (int64, error) { return st.rest(ctx, &b) })
	if err != nil {
		return jobrun.Swept{}, err
	}
	decided, err := st.decide(ctx, &b, ids, now)
	if err != nil {
		return jobrun.Swept{}, err
	}
	var told func()
	err = st.db.AsLeader(ctx, t, func(tx *sqlx.Tx) error {
		told = nil
		var steps int64
		row := tx.QueryRowContext(ctx, `SELECT b.steps FROM saga.saga_bulks b
		  WHERE b.tenant_id = $1 AND b.id = $2 AND b.state`+
			jobdb.Is(bulk.Running)+` FOR UPDATE`, m.Tenant, m.ID)
		if err := row.Scan(&steps); err != nil {
			if errors.Is(err, sql.ErrNoRows) {
				return nil // canceled in the meantime
			}
			return err
		}
		if steps != b.Steps {
			return nil // another node has processed these sagas
		}
		after := b
		if after.Halts(all) {
			return sagaBulks.halt(ctx, st.db, tx, &after.Head, now)
		}
		done, written, err := st.write(ctx, tx, &b, decided, now)
		if err != nil {
			if f := st.sagas.Unstorable(err); f != nil && len(decided) > 1 {
				return &unstorable{f}
			}
			return err
		}
		items := itemsOf(decided, done, now)
		after.Advance(items, cursor, more, now)
		if err := st.putItems(ctx, tx, &after, items); err != nil {
			return err
		}
		told = written
		return putSagaBulk(ctx, tx, &after)
	})
	if f := st.sagas.Unstorable(err); f != nil && len(decided) == 1 {
		return st.skip(ctx, t, &b, decided, cursor, more, now, f)
	}
	if err != nil {
		return jobrun.Swept{}, err
	}
	if told != nil {
		told()
	}
	return jobrun.Swept{Moved: len(ids), More: more && b.Rate == 0}, nil
}

// next returns the next sagas of a bulk, and the position of the last of them in the bulk's list.
func (st *SagaBulks) next(
	ctx context.Context, tenant uuid.UUID, b *sagabulk.Bulk, limit int,
) (ids []uuid.UUID, cursor *page.TimeID, more bool, err error) {
	if b.Filter == nil {
		ids, more = b.NextIDs(limit)
		return ids, nil, more, nil
	}
	found, err := st.sagas.List(ctx, tenant, b.Scope(limit))
	for i := range found.Items {
		ids = append(ids, found.Items[i].ID)
		cursor = new(found.Items[i].Place())
	}
	return ids, cursor, found.More, err
}

// decide decides about sagas. It refuses sagas that were named in the request before they existed.
func (st *SagaBulks) decide(
	ctx context.Context, b *sagabulk.Bulk, ids []uuid.UUID, now time.Time,
) ([]sagadb.Decided, error) {
	decided, err := st.sagas.Decide(ctx, b.TenantID, ids, now, b.Decide)
	if err != nil || b.Filter != nil || b.Snapshot == "" {
		return decided, err
	}
	late, named := map[uuid.UUID]bool{}, make([]string, len(ids))
	for i, id := range ids {
		named[i] = id.String()
	}
	err = st.db.ListTenant(ctx, b.TenantID, lateSagas, func(rows *sql.Rows) error {
		var id uuid.UUID
		err := rows.Scan(&id)
		late[id] = true
		return err
	}, b.TenantID, postgres.TextArray(named), string(b.Snapshot))
	for i := range decided {
		if late[decided[i].ID] {
			decided[i].Refusal = sagabulk.Late(decided[i].ID)
		}
	}
	return decided, err
}

// lateSagas are those of the given sagas that did not exist when a snapshot was taken.
var lateSagas = `
SELECT s.id FROM saga.saga_states s
  WHERE s.tenant_id = $1 AND s.id = ANY ($2::uuid[]) AND NOT ` + postgres.WasThere("s", "$3")

// write stores the decided changes, and decides again about sagas that were changed concurrently.
// done contains the outcome for each saga.
func (st *SagaBulks) write(
	ctx context.Context, tx *sqlx.Tx, b *sagabulk.Bulk, decided []sagadb.Decided, now time.Time,
) (done map[uuid.UUID]*fault.Error, told func(), err error) {
	done = map[uuid.UUID]*fault.Error{}
	var hints []func()
	for range decidesAgain {
		var changes []saga.Change
		for i := range decided {
			if d := &decided[i]; d.Refusal == nil {
				changes = append(changes, d.Change)
			} else {
				done[d.ID] = d.Refusal
			}
		}
		if len(changes) == 0 {
			break
		}
		moved, hint, err := st.sagas.Change(ctx, tx, changes)
		if err != nil {
			return nil, nil, err
		}
		hints = append(hints, hint)
		var again []uuid.UUID
		for i := range changes {
			if after := &changes[i].After; moved[after.Ref()] {
				done[after.ID] = nil
			} else {
				done[after.ID] = changes[i].Stale()
				again = append(again, after.ID)
			}
		}
		if len(again) == 0 {
			break
		}
		if decided, err = st.decide(ctx, b, again, now); err != nil {
			return nil, nil, err
		}
	}
	return done, func() {
		for _, hint := range hints {
			hint()
		}
	}, nil
}

func itemsOf(decided []sagadb.Decided, done map[uuid.UUID]*fault.Error, now time.Time) []sagabulk.Item {
	items := make([]sagabulk.Item, len(decided))
	for i := range decided {
		if refusal := done[decided[i].ID]; refusal != nil {
			items[i] = sagabulk.Refused(decided[i].ID, refusal, now)
		} else {
			items[i] = sagabulk.Accepted(&decided[i].Change.After, now)
		}
	}
	return items
}

// skip records the only saga of a step, whose change cannot be stored.
func (st *SagaBulks) skip(
	ctx context.Context, t jobrun.Term, b *sagabulk.Bulk, decided []sagadb.Decided, cursor *page.TimeID, more bool,
	now time.Time, why *fault.Error,
) (jobrun.Swept, error) {
	items := itemsOf(decided, map[uuid.UUID]*fault.Error{decided[0].ID: why}, now)
	was := b.Steps
	b.Advance(items, cursor, more, now)
	err := st.db.AsLeader(ctx, t, func(tx *sqlx.Tx) error {
		var steps int64
		err := tx.QueryRowContext(ctx, `SELECT b.steps FROM saga.saga_bulks b
		  WHERE b.tenant_id = $1 AND b.id = $2 AND b.state`+
			jobdb.Is(bulk.Running)+` FOR UPDATE`, b.TenantID, b.ID).Scan(&steps)
		if errors.Is(err, sql.ErrNoRows) || err == nil && steps != was {
			return nil
		}
		if err != nil {
			return err
		}
		if err := st.putItems(ctx, tx, b, items); err != nil {
			return err
		}
		return putSagaBulk(ctx, tx, b)
	})
	return jobrun.Swept{Moved: 1, More: more && b.Rate == 0}, err
}

// itemRow is a row of saga.saga_bulk_items.
type itemRow struct {
	*sagabulk.Item
	tenant, bulk uuid.UUID
}

var (
	itemTable = postgres.NewTable(
		postgres.UUID("tenant_id", func(i *itemRow) *uuid.UUID { return &i.tenant }),
		postgres.UUID("bulk_id", func(i *itemRow) *uuid.UUID { return &i.bulk }),
		postgres.Int("position", func(i *itemRow) *int64 { return &i.Position }),
		postgres.UUID("saga_id", func(i *itemRow) *uuid.UUID { return &i.SagaID }),
		postgres.Text("outcome", func(i *itemRow) *sagabulk.Outcome { return &i.Outcome }),
		postgres.Text("code", func(i *itemRow) *string { return &i.Code }),
		postgres.Text("detail", func(i *itemRow) *string { return &i.Detail }),
		postgres.Time("at", func(i *itemRow) *time.Time { return &i.At }),
	)
	insertItems = postgres.Named(`
INSERT INTO saga.saga_bulk_items (`+itemTable.Inserted()+`) SELECT `+itemTable.Stored("i")+` FROM `+
		postgres.Unnest("i", itemTable.As("i")), itemTable.As("i"))

	sagaBulkProgress = sagaBulkTable.Only("id", "tenant_id", "state", "version", "steps", "paced_at", "cursor_at",
		"cursor_id", "matched", "done", "skipped", "ended_at")
	saveSagaBulk = postgres.Named(`
		UPDATE saga.saga_bulks b SET `+sagaBulkProgress.Set("b", "id", "tenant_id")+`
		 WHERE b.tenant_id = @b.tenant_id AND b.id = @b.id AND b.state`+jobdb.Is(bulk.Running),
		sagaBulkProgress.As("b"))
)

func (st *SagaBulks) putItems(ctx context.Context, tx *sqlx.Tx, b *sagabulk.Bulk, items []sagabulk.Item) error {
	if len(items) == 0 {
		return nil
	}
	batch := itemTable.Batch(len(items))
	for i := range items {
		batch.Add(&itemRow{&items[i], b.TenantID, b.ID})
	}
	return st.db.ExecIn(ctx, tx, insertItems.Text, insertItems.Args(batch)...)
}

// putSagaBulk stores the progress of a locked bulk operation.
func putSagaBulk(ctx context.Context, tx *sqlx.Tx, b *sagabulk.Bulk) error {
	_, err := tx.ExecContext(ctx, saveSagaBulk.Text, saveSagaBulk.Args(sagaBulkProgress.Row(sagaRowOf(b)))...)
	return err
}
