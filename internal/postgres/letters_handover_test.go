package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

func TestWhatWasNeverHandedOverIsGivenBack(t *testing.T) {
	t.Parallel()
	m := newLetterQueue(t)
	m.push(t, m.due(), m.due(), m.due())
	drives := m.claim(t, 3)
	m.handOver(t, drives[0])
	old := drives[2] // of a version that notes nothing, whose tokens are of version 4
	execute(t, m.db.SQL(), `UPDATE dlq.dlq_messages SET retry_token = gen_random_uuid() WHERE id = $1`, old.ID)
	m.expire(t)
	if n, err := m.queue.Reclaim(t.Context(), 10, chance); err != nil || n != 3 {
		t.Fatalf("reclaimed %d, %v", n, err)
	}
	for i, want := range []struct {
		attempts string
		retries  int
	}{{"ABANDONED", 1}, {"WITHDRAWN", 0}, {"ABANDONED", 1}} {
		l := m.get(t, drives[i].ID)
		if got := m.attempts(t, l.ID); got != want.attempts || l.RetryCount != want.retries || l.Status != dlq.Pending || l.NextRetryAt == nil {
			t.Errorf("letter %d is %s after %s, %d retries, next %v; want %+v", i, l.Status, got, l.RetryCount, l.NextRetryAt, want)
		}
	}
}

// A DEAD letter that somebody forces is DEAD again when it was never sent: a PENDING
// one has a retry left (invariant D3).
func TestAForcedLetterThatWasNeverSentIsDeadAgain(t *testing.T) {
	t.Parallel()
	m := newLetterQueue(t)
	l := m.push(t, m.due(func(l *dlq.Letter) { l.MaxRetries = 1 }))[0]
	m.end(t, m.claim(t, 1)[0], dlq.FailedDrive)
	claim := dlq.Claim{TenantID: m.tenant, LetterID: l.ID, Force: true, Ways: dlq.Ways{Kinds: dlq.TargetKinds}, By: m.action(m.get(t, l.ID), "retry")}
	if _, err := m.queue.Take(t.Context(), claim, time.Minute); err != nil {
		t.Fatal(err)
	}
	m.expire(t)
	if n, err := m.queue.Reclaim(t.Context(), 10, chance); err != nil || n != 1 {
		t.Fatalf("reclaimed %d, %v", n, err)
	}
	if got := m.get(t, l.ID); got.Status != dlq.Dead || got.Resolution != dlq.Exhausted || got.RetryCount != 1 || m.attempts(t, l.ID) != "FAILED WITHDRAWN" {
		t.Errorf("%s %s after %d, %s", got.Status, got.Resolution, got.RetryCount, m.attempts(t, l.ID))
	}
}

func TestNotesOfHandOversGoWithWhatTheyAreOf(t *testing.T) {
	t.Parallel()
	m := newLetterQueue(t)
	m.push(t, m.due(), m.due())
	drives := m.claim(t, 2)
	notes := func() int { return ask[int](t, m.db.SQL(), `SELECT count(*) FROM dlq.dlq_handovers`) }
	end := endOf(drives[0], dlq.Acknowledged)
	end.Handover = m.handOver(t, drives[0])
	m.handOver(t, drives[1])
	if _, err := m.queue.Finish(t.Context(), []dlq.Finish{end}); err != nil || notes() != 1 {
		t.Fatalf("%d notes, %v", notes(), err)
	}
	execute(t, m.db.SQL(), `UPDATE dlq.dlq_handovers SET at = now() - interval '1 hour'`)
	reclaim := func() {
		if _, err := m.queue.Reclaim(t.Context(), 10, chance); err != nil {
			t.Fatal(err)
		}
	}
	if reclaim(); notes() != 1 {
		t.Error("the note of a letter that is on its way was forgotten")
	}
	m.expire(t)
	reclaim()
	if reclaim(); notes() != 0 {
		t.Error("the note of a letter whose node is gone was kept for ever")
	}
}

func TestNothingIsHandedOverForARedriveThatDoesNotRun(t *testing.T) {
	t.Parallel()
	m := newLetterQueue(t)
	l := m.push(t, m.due())[0]
	r := dlq.Redrive{
		ID: newID(), TenantID: m.tenant, Version: 1, Action: dlq.BulkRetry, State: dlq.RedrivePaused, IDs: []uuid.UUID{l.ID}, Rate: 1, Concurrency: 1,
		Order: dlq.Oldest, CreatedAt: now(), UpdatedAt: now(),
	}
	if err := postgres.NewRedrives(m.db, m.queue).Create(t.Context(), r, m.action(l, "create")); err != nil {
		t.Fatal(err)
	}
	d := m.claim(t, 1)[0]
	h := dlq.Handover{ID: newID(), RedriveID: r.ID, Tenants: []uuid.UUID{m.tenant}, Tokens: []uuid.UUID{d.Token}}
	if ok, err := m.queue.HandOver(t.Context(), h); err != nil || ok {
		t.Errorf("handed over %v, %v", ok, err)
	}
	execute(t, m.db.SQL(), `UPDATE dlq.dlq_redrives SET state = 'RUNNING' WHERE id = $1`, r.ID)
	if ok, err := m.queue.HandOver(t.Context(), h); err != nil || !ok {
		t.Errorf("handed over %v, %v", ok, err)
	}
}
