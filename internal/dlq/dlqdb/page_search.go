package dlqdb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// This file implements the alternating search for a page, which tries two methods in turn. Scanning
// in the order of the list finds the page quickly if many letters match. Combining indexes as
// bitmaps collects all matching letters, whatever their order, and is fast if there are few of
// them.
//
// Which method is better depends on the data, because the planner assumes that filters are
// independent of each other and of time. If no letter of a topic has a certain error that letters
// of other topics have, a scan would read the whole topic to find that out: 160 ms for 90,000
// letters in memory. The planner does know the size of each bitmap, however, and thus the cost of
// combining them: 3,000 of its cost units correspond to at most about 3,000 letters, in 2 to 15 ms.
// Cheaper searches try bitmaps first. For more expensive searches among a million letters, an
// ordered scan found the page within 10 ms unless all matches were old. So each method is tried
// first for a short time and then for a long time. If the matches are neither few nor near in the
// order, there are many of them, so a page of them cannot be far.
//
// With only two tries, the medians in ms of 168 queries on 500,000 letters on a busy machine were
// as follows. With an ordered scan followed by bitmaps, correlation_id takes 62 instead of 2 (41
// queries above 50 ms, not 7 to 11). With bitmaps if they are cheap and an ordered scan otherwise,
// source SAGA with status DEAD takes 100 instead of 4 to 6 (19 above 50 ms).
var tries = []try{
	{gather: true, cost: 3_000, within: 20 * time.Millisecond},
	{within: 20 * time.Millisecond},
	{gather: true, cost: 20_000, within: 50 * time.Millisecond},
	{within: 50 * time.Millisecond},
	{gather: true, cost: math.Inf(1), within: 250 * time.Millisecond},
}

// try is one attempt to find a page.
type try struct {
	gather bool          // true: with bitmaps; false: in the order of the list
	cost   float64       // the maximum cost of using bitmaps, in the planner's units
	within time.Duration // statement timeout
}

// fewRows is the maximum number of letters that gather collects.
const fewRows = 20_000

// found is a page, plus one letter if there is a next page.
type found struct {
	letters []dlq.Letter
	total   int64 // number of letters in the whole list; -1 means unknown
}

// find reads a page with the first of tries that finishes. If none does, it lets the planner
// choose, without a time limit.
func (st *Letters) find(ctx context.Context, tenant uuid.UUID, t *LetterTable, q dlq.Query,
	tries []try) (*found, error) {
	query, args := t.page(tenant, q)
	f := &found{total: -1}
	read := func(tx *sqlx.Tx) error {
		f.letters = nil
		rows, err := tx.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		return postgres.EachRow(rows, func() error {
			l, err := scanListed(st.db, rows)
			f.letters = append(f.letters, l)
			return err
		})
	}
	inOrder := func(tx *sqlx.Tx) error {
		// The planner would use bitmaps where it underestimates the number of rows.
		if _, err := tx.ExecContext(ctx, `SELECT set_config('enable_bitmapscan', 'off', true)`); err != nil {
			return err
		}
		return read(tx)
	}
	if combined(t, &q.Filter) {
		for _, try := range tries {
			if try.gather {
				if few, err := st.gather(ctx, tenant, t, q, try); few != nil || err != nil {
					return few, err
				}
			} else if err := st.db.Within(ctx, tenant, try.within, inOrder); !postgres.TimedOut(err) || ctx.Err() != nil {
				return f, err
			}
		}
	}
	return f, st.db.InTenant(ctx, tenant, read)
}

// combined reports whether a filter has several conditions, or conditions on terms, so that the
// planner's estimates may be wrong.
func combined(t *LetterTable, f *dlq.Filter) bool {
	if byTerms(t, f) {
		return true
	}
	// If one index covers all conditions, no row is read to check them. Such indexes cover topics
	// within groups, and statuses within topics.
	group := t.groups && f.Fingerprint != ""
	topic := group || t.groups && f.Topic != "" && !strings.HasSuffix(f.Topic, "*")
	asked := 0
	for _, is := range []bool{
		group, f.Topic != "" && !group, (f.Statuses != nil || f.Resolutions != nil) && !topic, f.RootID != uuid.Nil,
		f.RedriveID != uuid.Nil,
		!f.CreatedFrom.IsZero() || !f.CreatedTo.IsZero(), !f.LastRetryFrom.IsZero() || !f.LastRetryTo.IsZero(),
		f.RetryCountMin != nil || f.RetryCountMax != nil, f.GenerationMin > 0,
	} {
		if is {
			asked++
		}
	}
	return asked > 1
}

// sortKey is the position of a letter in a list.
type sortKey struct {
	at time.Time
	id uuid.UUID
}

// byBitmaps contains settings for a transaction. A bitmap index scan costs four times what the
// planner estimates: it would rather collect all DEAD letters, in 45 ms, than check 9,000 rows, in
// 17 ms. Beyond about 4 MB, a bitmap also becomes lossy: it records pages instead of rows, and
// these pages must then be scanned. With 16 MB, finding a PERMANENT error of a topic takes 66 ms
// instead of 107.
const byBitmaps = `SELECT set_config('enable_indexscan', 'off', true), set_config('enable_indexonlyscan', 'off', true),
	set_config('enable_seqscan', 'off', true),
	set_config('cpu_index_tuple_cost', '0.02', true),
	set_config('work_mem', '16MB', true)`

// gather reads a page by combining bitmaps of all matching letters. It returns nil if there are too
// many, or if finding them takes, or is expected to take, too long.
func (st *Letters) gather(ctx context.Context, tenant uuid.UUID, t *LetterTable, q dlq.Query,
	try try) (f *found, err error) {
	err = st.db.Within(ctx, tenant, try.within, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, byBitmaps); err != nil {
			return err
		}
		query, args := t.sortKeys(tenant, q)
		if cost, err := expectedCost(ctx, tx, query, args); err != nil || cost > try.cost {
			return err
		}
		places, err := readSortKeys(ctx, tx, q.Oldest, query, args)
		if err != nil || len(places) > fewRows {
			return err
		}
		few := &found{total: -1}
		if q.After == nil {
			few.total = int64(len(places))
		}
		places = places[min(q.Offset, len(places)):]
		places = places[:min(q.Limit+1, len(places))]
		few.letters, err = st.lettersAt(ctx, tx, tenant, t, places, &q)
		f = few
		return err
	})
	switch {
	case postgres.TimedOut(err) && ctx.Err() == nil:
		return nil, nil //nolint:nilnil // not an error: find then tries the other method
	case err != nil:
		return nil, err
	}
	return f, nil
}

// expectedCost returns the planner's estimate of a query's cost.
func expectedCost(ctx context.Context, tx *sqlx.Tx, query string, args []any) (float64, error) {
	var raw []byte
	if err := tx.GetContext(ctx, &raw, "EXPLAIN (FORMAT JSON) "+query, args...); err != nil {
		return 0, err
	}
	var plans []struct {
		Plan struct {
			Cost float64 `json:"Total Cost"`
		}
	}
	if err := json.Unmarshal(raw, &plans); err != nil {
		return 0, fmt.Errorf("read a plan: %w", err)
	}
	if len(plans) == 0 {
		return 0, errors.New("EXPLAIN returned no plan")
	}
	return plans[0].Plan.Cost, nil
}

// sortKeys returns the query for the sort keys of the matching letters; it returns only some of
// them if there are more than fewRows. The cursor condition does not use an index, because that
// would add a bitmap of nearly all letters.
func (t *LetterTable) sortKeys(tenant uuid.UUID, q dlq.Query) (query string, args []any) {
	all := q
	all.After = nil
	from, w := t.conditions(tenant, all)
	if q.After != nil {
		own := letterWhere{postgres.Where{Args: w.Args}}
		own.Add(t.beyond(&q), q.After.At, q.After.ID)
		w.unseen(own)
	}
	return fmt.Sprintf(`SELECT m.%s, m.id FROM %s m WHERE %s LIMIT %d`, t.at, from, w.Text(), fewRows+1), w.Args
}

// readSortKeys returns the sort keys in the order of the list.
func readSortKeys(ctx context.Context, tx *sqlx.Tx, oldest bool, query string, args []any) ([]sortKey, error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	var out []sortKey
	if err := postgres.EachRow(rows, func() error {
		var p sortKey
		err := rows.Scan(&p.at, &p.id)
		out = append(out, p)
		return err
	}); err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b sortKey) int {
		if !oldest {
			a, b = b, a
		}
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return bytes.Compare(a.id[:], b.id[:])
	})
	return out, nil
}

// lettersAt reads the letters with the given sort keys, and omits those that no longer exist.
func (st *Letters) lettersAt(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, t *LetterTable, places []sortKey,
	q *dlq.Query) ([]dlq.Letter, error) {
	ids := make([]uuid.UUID, len(places))
	index := make(map[uuid.UUID]int, len(places))
	for i, p := range places {
		ids[i], index[p.id] = p.id, i
	}
	rows, err := tx.QueryContext(ctx, `SELECT `+t.listed(q)+`
	  FROM `+t.table+` m
	 WHERE m.tenant_id = $1 AND m.id = ANY ($2)`, tenant, pq.Array(ids))
	if err != nil {
		return nil, err
	}
	letters := make([]dlq.Letter, 0, len(places))
	if err := postgres.EachRow(rows, func() error {
		l, err := scanListed(st.db, rows)
		letters = append(letters, l)
		return err
	}); err != nil {
		return nil, err
	}
	slices.SortFunc(letters, func(a, b dlq.Letter) int { return index[a.ID] - index[b.ID] })
	return letters, nil
}

// scanListed reads one row of listed.
func scanListed(db *postgres.DB, row postgres.Scanner) (dlq.Letter, error) {
	var omitted bool
	l, err := scanAnyLetter(db, row, &omitted)
	l.Omitted = omitted
	return l, shown(err)
}
