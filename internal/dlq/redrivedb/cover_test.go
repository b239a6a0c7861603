package redrivedb_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// letters are the ids of the letters of a redrive.
func (m redriving) letters(t *testing.T, r dlq.Redrive) (ids []uuid.UUID) {
	t.Helper()
	items, err := m.redrives.Items(t.Context(), m.Tenant, r.ID, nil, page.Request[int64]{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range items.Items {
		ids = append(ids, i.LetterID)
	}
	return ids
}

// requested stores a redrive that has not started.
func (m redriving) requested(t *testing.T, r dlq.Redrive) dlq.Redrive {
	t.Helper()
	r, err := m.redrives.Create(t.Context(), r, m.did(r, "create"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (m redriving) gathered(t *testing.T, r dlq.Redrive) dlq.Redrive {
	t.Helper()
	for done := false; !done; {
		var err error
		if done, err = m.redrives.Gather(t.Context(), r, 3); err != nil {
			t.Fatal(err)
		}
	}
	return m.read(t, r)
}

// Whatever a redrive does and however its letters are selected, it covers those that existed when
// it was requested. Of the others, one was stored by a transaction that began before and ended
// afterwards, one has the time of an older letter, and one came later.
func TestARedriveHasTheLettersOfItsRequest(t *testing.T) {
	t.Parallel()
	m := newRedriving(t)
	for _, action := range dlq.RedriveActions {
		for name, by := range map[string]func(*dlq.Redrive, []uuid.UUID){
			"all":   func(*dlq.Redrive, []uuid.UUID) {},
			"topic": func(r *dlq.Redrive, _ []uuid.UUID) { r.Filter = &dlq.Filter{Topic: "orders"} },
			"terms": func(r *dlq.Redrive, _ []uuid.UUID) {
				r.Filter = &dlq.Filter{Topic: "ord*", ErrorType: "IOException"}
			},
			"ids":      func(r *dlq.Redrive, ids []uuid.UUID) { r.IDs = ids },
			"schedule": func(r *dlq.Redrive, _ []uuid.UUID) { r.ScheduledFor = new(pgtest.Now().Add(-time.Second)) },
			"later":    func(r *dlq.Redrive, _ []uuid.UUID) { r.IncludeLater = true },
		} {
			t.Run(string(action)+" by "+name, func(t *testing.T) {
				pgtest.Execute(t, m.DB.SQL(), `DELETE FROM dlq.dlq_messages`)
				status := func(l *dlq.Letter) {
					if action == dlq.BulkRequeue {
						l.MaxRetries = 0 // it arrives dead
					}
				}
				existing := m.pushed(t, 5, status)
				// A letter as the node stores it, in a transaction that is still open.
				late, early := pgtest.NewID(), pgtest.NewID()
				copied := func(id uuid.UUID, at time.Time) string {
					return `INSERT INTO dlq.dlq_messages (id, root_id, original_topic, error_message, error_type, fingerprint, terms, max_retries, status, resolution, terminal_at, target, tenant_id, created_at)
					SELECT '` + id.String() + `', '` + id.String() + `', original_topic, error_message, error_type, fingerprint, terms, max_retries, status, resolution, terminal_at, target, tenant_id, '` +
						at.Format(time.RFC3339Nano) + `' FROM dlq.dlq_messages WHERE id = '` + existing[0].ID.String() + `'`
				}
				open, err := m.DB.SQL().BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer open.Rollback() //nolint:errcheck // it is committed
				if _, err := open.ExecContext(t.Context(), copied(late, existing[4].CreatedAt)); err != nil {
					t.Fatal(err)
				}
				var ids []uuid.UUID
				for _, l := range existing {
					ids = append(ids, l.ID)
				}
				named := append(slices.Clone(ids), late, early)
				r := m.requested(t, m.redrive(t, action, func(r *dlq.Redrive) { by(r, named) }))
				if *r.Expected != 5 {
					t.Errorf("expects %d letters", *r.Expected)
				}
				if err := open.Commit(); err != nil {
					t.Fatal(err)
				}
				pgtest.Execute(t, m.DB.SQL(), copied(early, existing[0].CreatedAt))
				later := m.pushed(t, 2, status)
				// Letters that existed are covered even if they were changed in the meantime.
				pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_messages SET note = 'seen', version = version + 1 WHERE id = $1`, ids[1])
				r = m.gathered(t, r)
				want := slices.Clone(ids)
				if name == "later" {
					want = append(want, late, early, later[0].ID, later[1].ID)
				}
				got := m.letters(t, r)
				sorted := func(a []uuid.UUID) []uuid.UUID {
					slices.SortFunc(a, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
					return a
				}
				if !slices.Equal(sorted(got), sorted(want)) {
					t.Errorf("it has %d letters: %v, want %v", len(got), got, want)
				}
				destroys := action == dlq.BulkDelete || action == dlq.BulkDiscard
				if halted := r.State == dlq.RedriveHalted; halted != (destroys && name == "later") {
					t.Errorf("it is %s (%s) with %d letters", r.State, r.HaltReason, r.Matched)
				}
			})
		}
	}
}

// A redrive halts before its first letter if it finds more than were expected, and continues with
// all of them if a person says so.
func TestARedriveHaltsOverMoreLettersThanExpected(t *testing.T) {
	t.Parallel()
	m := newRedriving(t)
	m.pushed(t, 4)
	for _, action := range []dlq.RedriveAction{dlq.BulkRetry, dlq.BulkResolve, dlq.BulkDelete} {
		r := m.gathered(t, m.requested(t, m.redrive(t, action, func(r *dlq.Redrive) { r.HaltsAbove = new(int64(3)) })))
		if r.State != dlq.RedriveHalted || r.HaltReason != "expected" || r.Matched != 4 || *r.Expected != 4 ||
			*r.HaltsAbove != 3 {
			t.Errorf("%s: %s (%s), %d letters, expected %v", action, r.State, r.HaltReason, r.Matched, r.Expected)
		}
		if n, err := m.redrives.Apply(t.Context(), r, 10, pgtest.Chance); n != 0 || err != nil {
			t.Errorf("%s: %d letters are touched, %v", action, n, err)
		}
		if drives := m.take(t, r, 10); len(drives) != 0 {
			t.Errorf("%s: %d letters are taken", action, len(drives))
		}
		on, err := r.Resumed(nil, "bob", pgtest.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := m.redrives.Change(t.Context(), on, m.did(r, "resume")); err != nil {
			t.Fatal(err)
		}
		if r = m.gathered(t, on); r.State != dlq.RedriveRunning || *r.HaltsAbove != 4 {
			t.Errorf("%s: resumed, it is %s, halts above %v", action, r.State, r.HaltsAbove)
		}
		if r = m.judge(t, r); r.State != dlq.RedriveRunning {
			t.Errorf("%s: it halts again", action)
		}
		canceled, _ := r.Moved(dlq.CancelRedrive, "bob", pgtest.Now())
		if err := m.redrives.Change(t.Context(), canceled, m.did(r, "cancel")); err != nil {
			t.Fatal(err)
		}
	}
}
