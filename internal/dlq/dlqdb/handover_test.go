package dlqdb_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/redrivedb"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestARetryThatWasNeverHandedOverDoesNotCount(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	m.PushAll(t, m.Due(), m.Due(), m.Due())
	drives := m.ClaimDue(t, 3)
	m.HandOver(t, drives[0])
	old := drives[2] // of an earlier version that writes no notes, whose tokens are of version 4
	pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_messages SET retry_token = gen_random_uuid() WHERE id = $1`, old.ID)
	m.Expire(t)
	if n, err := m.Queue.Reclaim(t.Context(), 10, pgtest.Chance); err != nil || n != 3 {
		t.Fatalf("reclaimed %d, %v", n, err)
	}
	for i, want := range []struct {
		attempts string
		retries  int
	}{{"ABANDONED", 1}, {"WITHDRAWN", 0}, {"ABANDONED", 1}} {
		l := m.Read(t, drives[i].ID)
		if got := m.Outcomes(t, l.ID); got != want.attempts || l.RetryCount != want.retries || l.Status != dlq.Pending ||
			l.NextRetryAt == nil {
			t.Errorf("letter %d is %s after %s, %d retries, next %v; want %+v", i, l.Status, got, l.RetryCount, l.NextRetryAt, want)
		}
	}
}

// A forced DEAD letter becomes DEAD again if it was never sent: a PENDING letter has a retry left
// (invariant D3).
func TestAForcedLetterThatWasNeverSentIsDeadAgain(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	l := m.PushAll(t, m.Due(func(l *dlq.Letter) { l.MaxRetries = 1 }))[0]
	m.End(t, m.ClaimDue(t, 1)[0], dlq.FailedDrive)
	claim := dlq.Claim{TenantID: m.Tenant, LetterID: l.ID, Force: true, Routes: dlq.Routes{Kinds: dlq.TargetKinds},
		By: m.Action(m.Read(t, l.ID), "retry")}
	if _, err := m.Queue.Take(t.Context(), claim, time.Minute); err != nil {
		t.Fatal(err)
	}
	m.Expire(t)
	if n, err := m.Queue.Reclaim(t.Context(), 10, pgtest.Chance); err != nil || n != 1 {
		t.Fatalf("reclaimed %d, %v", n, err)
	}
	if got := m.Read(t, l.ID); got.Status != dlq.Dead || got.Resolution != dlq.Exhausted || got.RetryCount != 1 ||
		m.Outcomes(t, l.ID) != "FAILED WITHDRAWN" {
		t.Errorf("%s %s after %d, %s", got.Status, got.Resolution, got.RetryCount, m.Outcomes(t, l.ID))
	}
}

func TestHandOverNotesAreDeletedWithTheirRetries(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	m.PushAll(t, m.Due(), m.Due())
	drives := m.ClaimDue(t, 2)
	notes := func() int { return pgtest.Ask[int](t, m.DB.SQL(), `SELECT count(*) FROM dlq.dlq_handovers`) }
	end := pgtest.EndOf(drives[0], dlq.Acknowledged)
	end.Handover = m.HandOver(t, drives[0])
	m.HandOver(t, drives[1])
	if _, err := m.Queue.Finish(t.Context(), []dlq.Finish{end}); err != nil || notes() != 1 {
		t.Fatalf("%d notes, %v", notes(), err)
	}
	pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_handovers SET at = now() - interval '1 hour'`)
	reclaim := func() {
		if _, err := m.Queue.Reclaim(t.Context(), 10, pgtest.Chance); err != nil {
			t.Fatal(err)
		}
	}
	if reclaim(); notes() != 1 {
		t.Error("the note of a letter that is on its way was forgotten")
	}
	m.Expire(t)
	reclaim()
	if reclaim(); notes() != 0 {
		t.Error("the note of a letter whose node is gone was kept for ever")
	}
}

func TestNothingIsHandedOverForARedriveThatIsNotRunning(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	l := m.PushAll(t, m.Due())[0]
	r := dlq.Redrive{
		ID: pgtest.NewID(), TenantID: m.Tenant, Version: 1, Action: dlq.BulkRetry, State: dlq.RedrivePaused,
		IDs: []uuid.UUID{l.ID}, Rate: 1, Concurrency: 1,
		Order: dlq.Oldest, CreatedAt: pgtest.Now(), UpdatedAt: pgtest.Now(),
	}
	if _, err := redrivedb.NewRedrives(m.DB, m.Queue).Create(t.Context(), r, m.Action(l, "create")); err != nil {
		t.Fatal(err)
	}
	d := m.ClaimDue(t, 1)[0]
	h := dlq.Handover{ID: pgtest.NewID(), RedriveID: r.ID, Tenants: []uuid.UUID{m.Tenant}, Tokens: []uuid.UUID{d.Token}}
	if ok, err := m.Queue.HandOver(t.Context(), h); err != nil || ok {
		t.Errorf("handed over %v, %v", ok, err)
	}
	pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_redrives SET state = 'RUNNING' WHERE id = $1`, r.ID)
	if ok, err := m.Queue.HandOver(t.Context(), h); err != nil || !ok {
		t.Errorf("handed over %v, %v", ok, err)
	}
}
