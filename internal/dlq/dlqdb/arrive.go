package dlqdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// errKnown reports that a batch expected to be all new contains a letter that is already stored.
var errKnown = errors.New("a dead letter from Kafka already exists")

// Arrive implements dlq.Queue. A batch is stored completely or not at all; a batch that was not
// stored is read from Kafka again. The whole batch is first assumed to be new, because records are
// read twice only if a crash or a rebalance left them uncommitted.
func (st *Queue) Arrive(ctx context.Context, batch []dlq.Arrival) (stored int, err error) {
	if len(batch) == 0 {
		return 0, nil
	}
	batch = slices.Clone(batch)
	// Rows are locked in this order.
	slices.SortStableFunc(batch, func(a, b dlq.Arrival) int {
		return cmp.Or(cmp.Compare(a.Arrived.Topic, b.Arrived.Topic), cmp.Compare(a.Arrived.Partition, b.Arrived.Partition),
			cmp.Compare(a.Arrived.Offset, b.Arrived.Offset))
	})
	stored, err = postgres.RetryCollision(func() (int, error) {
		return len(batch), st.db.InWrite(ctx, func(tx *sqlx.Tx) error { return st.arriveNew(ctx, tx, slices.Clone(batch)) })
	})
	if errors.Is(err, errKnown) || postgres.SQLState(err) == "23505" {
		stored, err = st.arriveRest(ctx, batch)
	}
	if err != nil {
		return 0, postgres.Wrap("store dead letters from Kafka", err) // this includes a failed commit
	}
	return stored, nil
}

// arriveRest stores the letters of a batch that are not stored yet. Another node may be storing the
// same records, so a letter that runs into a conflict is looked up again.
func (st *Queue) arriveRest(ctx context.Context, batch []dlq.Arrival) (stored int, err error) {
	for range pushTries {
		rest, err := postgres.RetryCollision(func() (rest arrivedRest, err error) {
			err = st.db.InWrite(ctx, func(tx *sqlx.Tx) error {
				rest, err = st.arriveUnknown(ctx, tx, batch)
				return err
			})
			return rest, err
		})
		if err != nil {
			return stored, err
		}
		stored += rest.stored
		if batch = rest.open; len(batch) == 0 {
			return stored, nil
		}
	}
	return stored, errConflictGone
}

// arrivedRest contains the number of letters of a batch that were stored, and the letters that are
// neither stored nor known.
type arrivedRest struct {
	stored int
	open   []dlq.Arrival
}

// arriveUnknown stores those letters of a batch whose records have not been read
// before.
func (st *Queue) arriveUnknown(ctx context.Context, tx *sqlx.Tx, batch []dlq.Arrival) (rest arrivedRest, err error) {
	var lives postgres.BinaryColumn
	asked, batch := make([]arrival, len(batch)), slices.Clone(batch)
	for i := range batch {
		lives.UUID(batch[i].Arrived.TopicID)
		asked[i] = arrival{&batch[i].Letter, batch[i].Written}
	}
	if _, err := tx.ExecContext(ctx, lockPlaces, lives.Parameter()); err != nil {
		return rest, err
	}
	known, err := settlePlaces(ctx, st.db, st.db.QueryFuncIn(tx), asked)
	if err != nil {
		return rest, err
	}
	for i := range batch {
		if _, is := known[i]; !is {
			rest.open = append(rest.open, batch[i])
		}
	}
	if len(rest.open) == 0 {
		return rest, nil
	}
	isNew, err := st.arrive(ctx, tx, slices.Clone(rest.open))
	if err != nil {
		return rest, err
	}
	rest.stored = len(isNew)
	rest.open = slices.DeleteFunc(rest.open, func(a dlq.Arrival) bool { return isNew[a.ID] })
	return rest, nil
}

// arriveNew stores a batch that has not been looked up. It returns errKnown or a unique violation
// unless the whole batch is new.
func (st *Queue) arriveNew(ctx context.Context, tx *sqlx.Tx, batch []dlq.Arrival) error {
	letters, err := st.prepareBatch(ctx, tx, batch)
	if err != nil {
		return err
	}
	if err := st.storeNew(ctx, tx, letters, len(batch)); err != nil {
		return err
	}
	return st.markBounced(ctx, tx, slices.DeleteFunc(batch, func(a dlq.Arrival) bool { return a.ParentID == uuid.Nil }))
}

// arrive stores a batch and returns the letters that were new.
func (st *Queue) arrive(ctx context.Context, tx *sqlx.Tx, batch []dlq.Arrival) (isNew map[uuid.UUID]bool, err error) {
	letters, err := st.prepareBatch(ctx, tx, batch)
	if err != nil {
		return nil, err
	}
	insert, err := st.db.PreparedIn(ctx, tx, pushLetters.Text)
	if err != nil {
		return nil, err
	}
	rows, err := insert.QueryContext(ctx, pushLetters.Args(letters.bound()...)...)
	if err != nil {
		return nil, err
	}
	isNew = map[uuid.UUID]bool{}
	err = postgres.EachRow(rows, func() error {
		var id uuid.UUID
		var seq int64
		err := rows.Scan(&id, &seq)
		isNew[id] = true
		return err
	})
	if err != nil {
		return nil, err
	}
	return isNew,
		st.markBounced(ctx, tx,
			slices.DeleteFunc(batch, func(a dlq.Arrival) bool { return a.ParentID == uuid.Nil || !isNew[a.ID] }))
}

// prepareBatch encodes a batch as statement parameters, and links letters that came back to their
// parents.
func (st *Queue) prepareBatch(ctx context.Context, tx *sqlx.Tx, batch []dlq.Arrival) (*newLetters, error) {
	if err := st.link(ctx, tx, batch); err != nil {
		return nil, err
	}
	letters := batchOf(st.db, len(batch))
	for i := range batch {
		if err := letters.add(ctx, &batch[i].Letter); err != nil {
			return nil, err
		}
	}
	return letters, nil
}

// storeNew stores n letters that are expected to be new.
func (st *Queue) storeNew(ctx context.Context, tx *sqlx.Tx, letters *newLetters, n int) error {
	insert, args := letters.new()
	stmt, err := st.db.PreparedIn(ctx, tx, insert.Text)
	if err != nil {
		return err
	}
	done, err := stmt.ExecContext(ctx, args...)
	if err != nil {
		return err
	}
	if stored, err := done.RowsAffected(); err != nil {
		return err
	} else if stored < int64(n) {
		return errKnown // one is archived, or at a place that must be looked up
	}
	return nil
}

// parents finds the letters that the records of a batch came back from. For each lineage this is
// the latest letter of that generation, or of the nearest earlier generation that is still stored.
// Live letters are locked, which serializes this transaction with one that is just ending their
// retry; the later one sees what the earlier one wrote.
var parents = postgres.Named(`
SELECT b.n, p.id, p.generation FROM `+postgres.Unnest("b", bounces.As("c"))+`
 CROSS JOIN LATERAL (
	SELECT l.id, l.generation FROM (
		SELECT m.id, m.generation, m.seq FROM dlq.dlq_messages m WHERE m.tenant_id = b.tenant_id AND m.id = b.root_id
		UNION ALL
		SELECT m.id, m.generation, m.seq FROM dlq.dlq_messages m
		 WHERE m.tenant_id = b.tenant_id AND m.root_id = b.root_id AND m.generation > 0 AND m.generation <= b.generation
		UNION ALL
		SELECT a.id, a.generation, a.seq FROM dlq.dlq_messages_archive a
		 WHERE a.tenant_id = b.tenant_id AND a.root_id = b.root_id AND a.generation <= b.generation) AS l
	 ORDER BY l.generation DESC, l.seq DESC LIMIT 1) AS p`, bounces.As("c"))

var lockParents = postgres.Named(`
SELECT m.id
  FROM dlq.dlq_messages m
  JOIN `+postgres.Unnest("p", foundParents.As("f"))+` ON m.tenant_id = p.tenant_id AND m.id = p.id
 ORDER BY m.id FOR NO KEY UPDATE OF m`, foundParents.As("f"))

// bounce refers to letter n of a batch, which came back.
type bounce struct {
	n int
	*dlq.Arrival
}

var bounces = postgres.NewTable(
	postgres.Int("n", func(r *bounce) *int { return &r.n }),
	postgres.UUID("tenant_id", func(r *bounce) *uuid.UUID { return &r.TenantID }),
	postgres.UUID("root_id", func(r *bounce) *uuid.UUID { return &r.BounceOf }),
	postgres.Int("generation", func(r *bounce) *int { return &r.BounceOn }),
)

var bouncedParents = postgres.NewTable(
	postgres.UUID("tenant_id", func(a *dlq.Arrival) *uuid.UUID { return &a.TenantID }),
	postgres.UUID("id", func(a *dlq.Arrival) *uuid.UUID { return &a.ParentID }),
	postgres.UUIDOrZero("redrive_id", func(a *dlq.Arrival) *uuid.UUID { return &a.OnRedrive }),
)

var foundParents = bouncedParents.Without("redrive_id")

// link sets the parents of letters that have come back.
func (st *Queue) link(ctx context.Context, tx *sqlx.Tx, batch []dlq.Arrival) error {
	back := bounces.Batch(0)
	for i := range batch {
		if a := &batch[i]; a.BounceOf != uuid.Nil {
			back.Add(&bounce{i, a})
		}
	}
	if back.Len() == 0 {
		return nil
	}
	find, err := st.db.PreparedIn(ctx, tx, parents.Text)
	if err != nil {
		return err
	}
	rows, err := find.QueryContext(ctx, parents.Args(back)...)
	if err != nil {
		return err
	}
	lock := foundParents.Batch(back.Len())
	err = postgres.EachRow(rows, func() error {
		var i, generation int
		var parent uuid.UUID
		if err := rows.Scan(&i, &parent, &generation); err != nil {
			return err
		}
		a := &batch[i]
		a.RootID, a.ParentID = a.BounceOf, parent
		lock.Add(a)
		return nil
	})
	if err != nil || lock.Len() == 0 {
		return err
	}
	_, err = tx.ExecContext(ctx, lockParents.Text, lockParents.Args(lock)...)
	return err
}

// markBouncedLetters records on redriven letters that they have come back. It also counts them in
// the redrive that drove them last, if the record carries its id. Letters are found by id: the
// empty string appended to the status, and coalesce, hide the status indexes from the planner,
// whose statistics may not yet know how many letters have this status.
var markBouncedLetters = postgres.Named(`
WITH back AS (
	UPDATE dlq.dlq_messages m SET resolution = 'BOUNCED', updated_at = clock_timestamp(), version = m.version + 1
	  FROM (SELECT DISTINCT b.tenant_id, b.id, b.redrive_id FROM `+postgres.Unnest("b", bouncedParents.As("p"))+`) AS b
	 WHERE m.tenant_id = b.tenant_id
	   AND m.id = b.id
	   AND `+Leaves("m.status || ''", dlq.CameBack)+`
	   AND coalesce(m.resolution, '')`+postgres.Among(dlq.Returnable)+`
	RETURNING m.tenant_id, m.id, m.redrive_id, b.redrive_id AS told
), items AS (
	UPDATE dlq.dlq_redrive_items i SET state = 'BOUNCED', updated_at = clock_timestamp()
	  FROM back WHERE back.redrive_id = back.told AND i.redrive_id = back.redrive_id AND i.tenant_id = back.tenant_id
	   AND i.message_id = back.id AND i.state`+postgres.Among(dlq.ItemsFrom(dlq.ItemBack))+`
	RETURNING i.tenant_id, i.redrive_id
)
UPDATE dlq.dlq_redrives d SET bounced = d.bounced + n.count, updated_at = clock_timestamp()
  FROM (SELECT i.tenant_id, i.redrive_id, count(*) FROM items i GROUP BY i.tenant_id, i.redrive_id) AS n
 WHERE d.tenant_id = n.tenant_id AND d.id = n.redrive_id`, bouncedParents.As("p"))

func (st *Queue) markBounced(ctx context.Context, tx *sqlx.Tx, bounced []dlq.Arrival) error {
	if len(bounced) == 0 {
		return nil
	}
	back := bouncedParents.Batch(len(bounced))
	for i := range bounced {
		back.Add(&bounced[i])
	}
	if _, err := tx.ExecContext(ctx, markBouncedLetters.Text, markBouncedLetters.Args(back)...); err != nil {
		return fmt.Errorf("mark letters that came back: %w", err)
	}
	return nil
}
