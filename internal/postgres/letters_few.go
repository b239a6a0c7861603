package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/dlq"
)

// The planner takes filters for independent of each other and of time. Where they
// are not, where no letter of a topic has an error of another's, it reads all of
// the topic to find that out: 700 ms for 90,000 letters. So it may try its luck
// for a moment. Then what each index knows is brought together in bitmaps, which
// shows those that fit if they are few; and only if they are many, so that a page
// of them cannot be far, it goes on as it wanted.
const (
	luck      = 25 * time.Millisecond
	gathering = 250 * time.Millisecond
	fewRows   = 20_000
)

// combined tells whether a filter asks for several things, or for terms, so that
// the planner may be mistaken about it.
func combined(t *letterTable, f *dlq.Filter) bool {
	if byTerms(t, f) {
		return true
	}
	asked := 0
	for _, is := range []bool{
		f.Topic != "", f.Statuses != nil || f.Resolutions != nil, f.Fingerprint != "", f.RootID != uuid.Nil, f.RedriveID != uuid.Nil,
		!f.CreatedFrom.IsZero() || !f.CreatedTo.IsZero(), !f.LastRetryFrom.IsZero() || !f.LastRetryTo.IsZero(),
		f.RetryCountMin != nil || f.RetryCountMax != nil, f.GenerationMin > 0,
	} {
		if is {
			asked++
		}
	}
	return asked > 1
}

// place is where a letter stands in a list.
type place struct {
	at time.Time
	id uuid.UUID
}

// gather reads a page by bringing together all letters that fit; false: they are
// too many, or finding them takes too long.
func (st *Letters) gather(ctx context.Context, tenant uuid.UUID, t *letterTable, q dlq.Query) (letters []dlq.Letter, ok bool, err error) {
	err = st.db.within(ctx, tenant, gathering, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, `SELECT set_config('enable_indexscan', 'off', true), set_config('enable_indexonlyscan', 'off', true),
			set_config('enable_seqscan', 'off', true)`); err != nil {
			return err
		}
		places, err := t.places(ctx, tx, tenant, q)
		if err != nil || len(places) > fewRows {
			return err
		}
		ok = true
		places = places[min(q.Offset, len(places)):]
		places = places[:min(q.Limit+1, len(places))]
		letters, err = st.lettersAt(ctx, tx, tenant, t, places, &q)
		return err
	})
	if ranOut(err) && ctx.Err() == nil {
		return nil, false, nil
	}
	return letters, ok && err == nil, err
}

// places returns the places of the letters that fit, in the order of the list; of
// more than fewRows some, in no order.
func (t *letterTable) places(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, q dlq.Query) ([]place, error) {
	from, w := t.conditions(tenant, q)
	rows, err := tx.QueryContext(ctx, fmt.Sprintf(`SELECT m.%s, m.id FROM %s m WHERE %s LIMIT %d`, t.at, from, w.text(), fewRows+1), w.args...)
	if err != nil {
		return nil, err
	}
	var out []place
	if err := eachRow(rows, func() error {
		var p place
		err := rows.Scan(&p.at, &p.id)
		out = append(out, p)
		return err
	}); err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b place) int {
		if !q.Oldest {
			a, b = b, a
		}
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return bytes.Compare(a.id[:], b.id[:])
	})
	return out, nil
}

// lettersAt reads the letters at places. One that is gone by now is left out.
func (st *Letters) lettersAt(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, t *letterTable, places []place, q *dlq.Query) ([]dlq.Letter, error) {
	ids := make([]uuid.UUID, len(places))
	index := make(map[uuid.UUID]int, len(places))
	for i, p := range places {
		ids[i], index[p.id] = p.id, i
	}
	rows, err := tx.QueryContext(ctx, `SELECT `+t.listed(q)+` FROM `+t.table+` m WHERE m.tenant_id = $1 AND m.id = ANY ($2)`, tenant, pq.Array(ids))
	if err != nil {
		return nil, err
	}
	letters := make([]dlq.Letter, 0, len(places))
	if err := eachRow(rows, func() error {
		l, err := st.db.scanListed(rows)
		letters = append(letters, l)
		return err
	}); err != nil {
		return nil, err
	}
	slices.SortFunc(letters, func(a, b dlq.Letter) int { return index[a.ID] - index[b.ID] })
	return letters, nil
}
