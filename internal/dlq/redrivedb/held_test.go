package redrivedb_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// due stores letters whose automatic retry is due.
func (m redriving) due(t *testing.T, n int, change ...func(*dlq.Letter)) (ids []uuid.UUID) {
	t.Helper()
	var batch []dlq.Letter
	for range n {
		batch = append(batch, m.Due(change...))
	}
	for _, l := range m.PushAll(t, batch...) {
		ids = append(ids, l.ID)
	}
	return ids
}

func (m redriving) move(t *testing.T, r dlq.Redrive, verb dlq.RedriveVerb) dlq.Redrive {
	t.Helper()
	r, err := m.read(t, r).Moved(verb, "bob", pgtest.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.redrives.Change(t.Context(), r, m.did(r, string(verb))); err != nil {
		t.Fatal(err)
	}
	return m.read(t, r)
}

// Letters that a redrive has collected are not retried automatically until it has ended, whatever
// its state and its outcome for them. Other letters are.
func TestLettersOfAnUnfinishedRedriveAreNotRetriedAutomatically(t *testing.T) {
	t.Parallel()
	m := newRedriving(t)
	m.due(t, 6)
	r := m.requested(t, m.redrive(t, dlq.BulkRetry, func(r *dlq.Redrive) {
		r.Filter, r.StopOn = &dlq.Filter{Topic: "orders"}, dlq.StopOn{Failures: 1}
		r.ScheduledFor = new(pgtest.Now().Add(-time.Second))
	}))
	if early := m.ClaimDue(t, 1); len(early) != 1 {
		t.Fatal("a redrive that has not begun holds letters")
	} else if !m.End(t, early[0], dlq.Acknowledged) {
		t.Fatal("the letter is lost")
	}
	r = m.gathered(t, r)
	other := m.due(t, 1)
	none := func(when string) {
		t.Helper()
		if got := m.ClaimDue(t, 10); len(got) != 0 {
			t.Errorf("%s: %d letters are retried automatically", when, len(got))
		}
		if n := m.Free(t); n != 0 {
			t.Errorf("%s: %d letters are let go", when, n)
		}
		for _, item := range m.letters(t, r) {
			if by := m.holder(t, item); by != r.ID && by != notRetried {
				t.Errorf("%s: letter %s is held by %s", when, item, by)
			}
		}
	}
	if by := m.holder(t, other[0]); by != uuid.Nil {
		t.Errorf("a letter that came later is held by %s", by)
	}
	if got := m.ClaimDue(t, 10); len(got) != 1 || got[0].ID != other[0] {
		t.Errorf("%d letters are retried automatically, want the one that came later", len(got))
	}
	none("running")
	m.full(t, r)
	taken := m.take(t, r, 2)
	if len(taken) == 0 {
		t.Fatal("nothing is taken")
	}
	m.finish(t, r, dlq.FailedDrive, taken...)
	pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_messages SET next_retry_at = now() WHERE next_retry_at IS NOT NULL`)
	none("failed in it")
	if r = m.judge(t, r); r.State != dlq.RedriveHalted {
		t.Fatal(r.State)
	}
	none("halted")
	m.move(t, r, dlq.ResumeRedrive)
	none("resumed")
	m.gathered(t, r)
	m.move(t, r, dlq.PauseRedrive)
	none("paused")
	m.move(t, r, dlq.CancelRedrive)
	for range 10 { // including the failed ones
		m.Free(t)
	}
	for _, item := range m.letters(t, r) {
		if by := m.holder(t, item); by != uuid.Nil && by != notRetried {
			t.Errorf("after its end letter %s is held by %s", item, by)
		}
	}
	if got := m.ClaimDue(t, 10); len(got) != 5 {
		t.Errorf("after its end %d letters are retried automatically, want 5", len(got))
	}
}

// notRetried stands for a letter that has no automatic retry.
var notRetried = uuid.UUID{1}

// holder returns the redrive that holds a letter, according to the letter and its list.
func (m redriving) holder(t *testing.T, id uuid.UUID) uuid.UUID {
	t.Helper()
	l, err := m.Letters.Get(t.Context(), m.Tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := m.Letters.List(t.Context(), m.Tenant, dlq.Query{ByTime: page.ByTime{Limit: 100}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range listed.Items {
		if listed.Items[i].ID == id && listed.Items[i].CollectedBy != l.CollectedBy {
			t.Errorf("it is held by %s, in the list by %s", l.CollectedBy, listed.Items[i].CollectedBy)
		}
	}
	if !l.Retried() {
		return notRetried
	}
	return l.CollectedBy
}

// A letter that an action other than a retry has made PENDING is no longer held.
func TestRequeuedLettersAreRetriedBeforeTheirRedriveEnds(t *testing.T) {
	t.Parallel()
	m := newRedriving(t)
	m.pushed(t, 3, func(l *dlq.Letter) { l.MaxRetries = 0 })
	r := m.gathered(t, m.requested(t, m.redrive(t, dlq.BulkRequeue)))
	if n, err := m.redrives.Apply(t.Context(), r, 2, pgtest.Chance); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_messages SET next_retry_at = now() WHERE status = 'PENDING'`)
	if got := m.ClaimDue(t, 10); len(got) != 2 {
		t.Errorf("%d letters are retried", len(got))
	}
}

// A redrive skips letters of a redrive that began earlier, unless that one has halted, because then
// a person may request another one.
func TestARedriveLeavesLettersToTheOneThatBeganEarlier(t *testing.T) {
	t.Parallel()
	m := newRedriving(t)
	m.due(t, 3)
	first := m.gathered(t, m.requested(t, m.redrive(t, dlq.BulkRetry)))
	second := m.gathered(t, m.requested(t, m.redrive(t, dlq.BulkRetry)))
	m.full(t, second)
	if got := m.take(t, second, 3); len(got) != 0 {
		t.Errorf("the second one takes %d letters", len(got))
	}
	items, err := m.redrives.Items(t.Context(), m.Tenant, second.ID, []dlq.ItemState{dlq.ItemSkipped},
		page.Request[int64]{Limit: 10})
	if err != nil || len(items.Items) != 3 || !strings.Contains(items.Items[0].Detail, first.ID.String()) {
		t.Errorf("skipped %+v, %v", items.Items, err)
	}
	m.full(t, first)
	if got := m.take(t, first, 3); len(got) != 3 {
		t.Errorf("the first one takes %d letters", len(got))
	}
	m.due(t, 2)
	third := m.gathered(t, m.requested(t, m.redrive(t, dlq.BulkRetry)))
	pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_redrives SET state = 'HALTED' WHERE id = $1`, third.ID)
	fourth := m.gathered(t, m.requested(t, m.redrive(t, dlq.BulkRetry)))
	m.full(t, fourth)
	if got := m.take(t, fourth, 5); len(got) != 2 {
		t.Errorf("beside a halted one %d letters are taken", len(got))
	}
}

// With the order per_key, a redrive waits for a letter that was being retried when it was
// collected, and a person cannot retry a letter out of order.
func TestNobodyOvertakesARedrivePerKey(t *testing.T) {
	t.Parallel()
	m := newRedriving(t)
	key := func(l *dlq.Letter) { l.Content.Key = []byte("k") }
	ids := m.due(t, 3, key)
	flying := m.ClaimDue(t, 1)
	if len(flying) != 1 || flying[0].ID != ids[0] {
		t.Fatal(flying)
	}
	r := m.requested(t, m.redrive(t, dlq.BulkRetry, func(r *dlq.Redrive) {
		r.Order, r.Filter = dlq.PerKey, &dlq.Filter{Statuses: []dlq.Status{dlq.Pending, dlq.Retrying}, Topic: "orders"}
	}))
	r = m.gathered(t, r)
	m.full(t, r)
	if got := m.take(t, r, 3); len(got) != 0 {
		t.Errorf("%d letters overtake the one that is being retried", len(got))
	}
	_, err := m.Queue.Take(t.Context(), dlq.Claim{TenantID: m.Tenant, LetterID: ids[2],
		Routes: dlq.Routes{Kinds: pgtest.KafkaOnly}}, time.Minute)
	if !fault.IsCode(err, dlq.CodeKeyBlocked) || !strings.Contains(err.Error(), r.ID.String()) {
		t.Errorf("a retry by hand: %v", err)
	}
	m.End(t, flying[0], dlq.Acknowledged)
	m.full(t, r)
	if got := m.take(t, r, 3); len(got) != 1 || got[0].ID != ids[1] {
		t.Errorf("then %d letters are taken, want the second of its key", len(got))
	}
}
