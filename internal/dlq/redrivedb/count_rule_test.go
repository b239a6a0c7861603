package redrivedb_test

import (
	"database/sql"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/redrivedb"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// countWorlds is the number of random batches that are counted both ways.
const countWorlds = 40

// TestFinishedItemsAreCountedAsTheRuleSays lets the statement count random ends of drives, some for
// letters that were handed over before, and compares the result with dlq.Progress.Count.
func TestFinishedItemsAreCountedAsTheRuleSays(t *testing.T) {
	t.Parallel()
	m := newRedriving(t)
	for seed := range uint64(countWorlds) {
		random := rand.New(rand.NewPCG(seed, 14))
		r := m.redrive(t, dlq.BulkRetry)
		if _, err := m.redrives.Create(t.Context(), r, m.did(r, "create")); err != nil {
			t.Fatal(err)
		}
		var want dlq.Progress
		wantStates, gotStates := map[int64]string{}, map[int64]string{}
		var ids []uuid.UUID
		var states, details, reaches []string
		for seq := range int64(1 + random.IntN(12)) {
			state, id := dlq.ItemStates[random.IntN(len(dlq.ItemStates))], pgtest.NewID()
			if random.IntN(4) > 0 {
				state = dlq.ItemTaken
			}
			hands := random.IntN(4)
			pgtest.Execute(t, m.DB.SQL(), `INSERT INTO dlq.dlq_redrive_items (redrive_id, tenant_id, seq, message_id, state, hands, updated_at)
				VALUES ($1, $2, $3, $4, $5, $6, now())`, r.ID, m.Tenant, seq, id, state, hands)
			if wantStates[seq] = string(state); random.IntN(5) == 0 {
				continue // not in this batch
			}
			f, stored := anEnd(random)
			item, reach := f.Item(stored)
			ids, states = append(ids, id), append(states, string(item.State))
			details, reaches = append(details, item.Detail), append(reaches, string(reach))
			if state != dlq.ItemTaken {
				continue // counted already, or waiting again
			}
			after := hands
			if reach != dlq.NotReached {
				after++
			}
			want.Count(item.State, reach == dlq.Answered, hands, after)
			wantStates[seq] = string(item.State)
		}
		pgtest.Execute(t, m.DB.SQL(), redrivedb.FinishItems, m.Tenant, r.ID, pq.Array(ids), pq.Array(states),
			pq.Array(details), pq.Array(reaches), "")
		got := counted(t, m.DB.SQL(), r.ID, gotStates)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("world %d: the ends %v, %v are counted otherwise than the rule says (-rule +statement):\n%s", seed, states, reaches, diff)
		}
		if diff := cmp.Diff(wantStates, gotStates); diff != "" {
			t.Fatalf("world %d: items (-rule +statement):\n%s", seed, diff)
		}
	}
}

// anEnd returns a random end of a drive, and the letter's resolution after it.
func anEnd(random *rand.Rand) (f dlq.Finish, stored dlq.Resolution) {
	f.Attempt.Outcome = []dlq.AttemptOutcome{dlq.Acknowledged, dlq.FailedDrive, dlq.Uncertain,
		dlq.Withdrawn}[random.IntN(4)]
	switch f.Status = dlq.Pending; f.Attempt.Outcome {
	case dlq.Acknowledged:
		f.Status, stored = dlq.Resolved, []dlq.Resolution{dlq.Redriven, dlq.Bounced}[random.IntN(2)]
	case dlq.FailedDrive:
		f.Attempt.StatusCode = []int{0, 500}[random.IntN(2)]
	case dlq.Uncertain:
		f.Status = []dlq.Status{dlq.Dead, dlq.Retrying}[random.IntN(2)]
	case dlq.Withdrawn:
		if random.IntN(2) == 0 {
			f.Fault = fault.New(fault.Conflict, dlq.CodeConflict, "it is kept")
		}
	}
	return f, stored
}

// counted reads the counters of a redrive and the states of its items.
func counted(t *testing.T, db *sql.DB, redrive uuid.UUID, states map[int64]string) (p dlq.Progress) {
	t.Helper()
	err := db.QueryRowContext(t.Context(), `SELECT done, failed, skipped, bounced, sent, maybe_sent, repeated FROM dlq.dlq_redrives WHERE id = $1`, redrive).
		Scan(&p.Done, &p.Failed, &p.Skipped, &p.Bounced, &p.Sent, &p.MaybeSent, &p.Repeated)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := db.QueryContext(t.Context(), `SELECT seq, state FROM dlq.dlq_redrive_items WHERE redrive_id = $1`, redrive)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var seq int64
		var state string
		if err := rows.Scan(&seq, &state); err != nil {
			t.Fatal(err)
		}
		states[seq] = state
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return p
}
