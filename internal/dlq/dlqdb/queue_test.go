package dlqdb_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestADueLetterIsClaimedOnceByManyClaimers(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	var batch []dlq.Letter
	for range 400 {
		batch = append(batch, m.Due())
	}
	m.PushAll(t, batch...)
	var mu sync.Mutex
	seen := map[uuid.UUID]int{}
	var claimers sync.WaitGroup
	for range 8 {
		claimers.Go(func() {
			for {
				drives, err := m.Queue.Due(t.Context(), pgtest.KafkaOnly, time.Minute, 7)
				if err != nil {
					t.Error(err)
					return
				}
				if len(drives) == 0 {
					return
				}
				mu.Lock()
				for _, d := range drives {
					seen[d.ID]++
				}
				mu.Unlock()
			}
		})
	}
	claimers.Wait()
	for range 60 { // retry what one claimer skipped while another one held it
		for _, d := range m.ClaimDue(t, 7) {
			seen[d.ID]++
		}
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("letter %s was claimed %d times", id, n)
		}
	}
	if len(seen) != len(batch) {
		t.Errorf("%d of %d letters were claimed", len(seen), len(batch))
	}
}

func TestOnlyDueLettersWithReachableTargetsAreClaimed(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	late := m.NewLetter()
	late.NextRetryAt = new(pgtest.Now().Add(time.Hour))
	byHand := m.NewLetter()
	byHand.NextRetryAt = nil
	elsewhere := m.Due(func(l *dlq.Letter) { l.Target = dlq.Target{Kind: dlq.ToHTTP, URL: "http://x"} })
	want := m.Due(func(l *dlq.Letter) { l.Content.Payload = []byte("hello"); l.RedriveID = pgtest.NewID() })
	m.PushAll(t, late, byHand, elsewhere, want)
	got := m.ClaimDue(t, 10)
	if len(got) != 1 || got[0].ID != want.ID {
		t.Fatalf("claimed %+v", got)
	}
	d := got[0]
	drive := d
	drive.Status, drive.Number, drive.Version = dlq.Retrying, 1, 2
	drive.To, drive.Send.Payload = dlq.Target{Kind: dlq.ToKafka, Topic: "orders"}, []byte("hello")
	drive.RedriveID, drive.Forced = uuid.Nil, false
	if diff := cmp.Diff(drive, d); diff != "" || d.Token == uuid.Nil || d.LeaseUntil == nil || d.LastRetryAt == nil {
		t.Errorf("token %s, lease until %v, last retry at %v (-want +got):\n%s", d.Token, d.LeaseUntil, d.LastRetryAt, diff)
	}
	stored := m.Read(t, d.ID)
	if stored.Token != d.Token || stored.RedriveID != want.RedriveID {
		t.Errorf("stored %+v", stored)
	}
}

func TestLettersOfOneKeyAreClaimedInTheOrderOfTheirArrival(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	keyed := func(key string) dlq.Letter {
		return m.Due(func(l *dlq.Letter) { l.Content.Key = []byte(key); l.Ordered = true })
	}
	// Ordered, because the policy says so.
	pushed := m.PushAll(t, func() (out []dlq.Letter) {
		for _, key := range []string{"a", "a", "b", "a"} {
			l := keyed(key)
			l.Ordered = true
			out = append(out, l)
		}
		return out
	}()...)
	ids := func(drives []dlq.Drive) (out []uuid.UUID) {
		for _, d := range drives {
			out = append(out, d.ID)
		}
		return out
	}
	first := m.ClaimDue(t, 10)
	if diff := cmp.Diff([]uuid.UUID{pushed[0].ID, pushed[2].ID}, ids(first)); diff != "" {
		t.Fatalf("first of each key (-want +got):\n%s", diff)
	}
	if more := m.ClaimDue(t, 10); more != nil {
		t.Fatalf("claimed %v beside them", ids(more))
	}
	// A failed letter that is waiting blocks the others; a finished one does not.
	m.End(t, first[1], dlq.FailedDrive)
	m.End(t, first[0], dlq.FailedDrive)
	if more := m.ClaimDue(t, 10); more != nil {
		t.Fatalf("claimed %v while the first waits", ids(more))
	}
	pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_messages SET next_retry_at = now() WHERE id = $1`, pushed[0].ID)
	m.End(t, m.ClaimDue(t, 10)[0], dlq.Acknowledged)
	if next := m.ClaimDue(t, 10); !slices.Equal(ids(next), []uuid.UUID{pushed[1].ID}) {
		t.Errorf("then %v, want the second of the key", ids(next))
	}
}

func TestARetryEndsByTheRules(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	for _, tt := range []struct {
		name     string
		outcomes []dlq.AttemptOutcome
		status   dlq.Status
		why      dlq.Resolution
		count    int
	}{
		{"acknowledged", []dlq.AttemptOutcome{dlq.Acknowledged}, dlq.Resolved, dlq.Redriven, 0},
		{"failed once", []dlq.AttemptOutcome{dlq.FailedDrive}, dlq.Pending, "", 1},
		{"uncertain counts", []dlq.AttemptOutcome{dlq.Uncertain}, dlq.Pending, "", 1},
		{"withdrawn does not count", []dlq.AttemptOutcome{dlq.Withdrawn, dlq.Withdrawn}, dlq.Pending, "", 0},
		{"failed to the end", []dlq.AttemptOutcome{dlq.FailedDrive, dlq.Uncertain, dlq.FailedDrive}, dlq.Dead, dlq.Exhausted, 3},
		{"failed and then acknowledged", []dlq.AttemptOutcome{dlq.FailedDrive, dlq.Acknowledged}, dlq.Resolved, dlq.Redriven, 1},
	} {
		l := m.PushAll(t, m.Due())[0]
		var tried []string
		for _, outcome := range tt.outcomes {
			pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_messages SET next_retry_at = now() WHERE id = $1 AND status = 'PENDING'`, l.ID)
			for _, d := range m.ClaimDue(t, 1) {
				if !m.End(t, d, outcome) {
					t.Errorf("%s: %s was not stored", tt.name, outcome)
				}
			}
			tried = append(tried, string(outcome))
		}
		got := m.Read(t, l.ID)
		want := got
		want.Status, want.Resolution, want.RetryCount, want.Token = tt.status, tt.why, tt.count, uuid.Nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if (got.NextRetryAt != nil) != (tt.status == dlq.Pending) || (got.TerminalAt != nil) != tt.status.Terminal() {
			t.Errorf("%s: next %v, terminal %v", tt.name, got.NextRetryAt, got.TerminalAt)
		}
		if a := m.Outcomes(t, l.ID); a != strings.Join(tried, " ") {
			t.Errorf("%s: attempts %s", tt.name, a)
		}
		pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_messages SET next_retry_at = NULL WHERE id = $1`, l.ID)
	}
}

func TestAnEndIsStoredOnceAndOnlyWhileItsTokenHoldsTheLetter(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	l := m.PushAll(t, m.Due())[0]
	d := m.ClaimDue(t, 1)[0]
	end := pgtest.EndOf(d, dlq.FailedDrive)
	for range 2 { // the answer was lost
		if held, err := m.Queue.Finish(t.Context(), []dlq.Finish{end}); err != nil || !held[0] {
			t.Fatalf("held %v, %v", held, err)
		}
	}
	if got := m.Read(t, l.ID); got.RetryCount != 1 || got.Version != 3 {
		t.Fatalf("count %d, version %d", got.RetryCount, got.Version)
	}
	pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_messages SET next_retry_at = now() WHERE id = $1`, l.ID)
	lost := m.ClaimDue(t, 1)[0]
	m.HandOver(t, lost)
	m.Expire(t)
	if n, err := m.Queue.Reclaim(t.Context(), 10, pgtest.Chance); err != nil || n != 1 {
		t.Fatalf("reclaimed %d, %v", n, err)
	}
	if n, err := m.Queue.Reclaim(t.Context(), 10, pgtest.Chance); err != nil || n != 0 {
		t.Fatalf("reclaimed %d again, %v", n, err)
	}
	before := m.Read(t, l.ID)
	if before.Status != dlq.Pending || before.RetryCount != 2 || before.NextRetryAt == nil ||
		m.Outcomes(t, l.ID) != "FAILED ABANDONED" {
		t.Fatalf("reclaimed: %s, %d retries, next %v, %s", before.Status, before.RetryCount, before.NextRetryAt, m.Outcomes(t, l.ID))
	}
	if m.End(t, lost, dlq.Acknowledged) {
		t.Error("the end of a lost retry was stored")
	}
	after := m.Read(t, l.ID)
	if before.LastError == "" || after.LastError != "" {
		t.Errorf("the last retry said %q, and %q when its end was known", before.LastError, after.LastError)
	}
	before.LastError, before.LastErrorAt = "", nil
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("a late end changed the letter:\n%s", diff)
	}
	if a := m.Outcomes(t, l.ID); a != "FAILED ACKNOWLEDGED" {
		t.Errorf("attempts %s: what is known late should be kept", a)
	}
	// A node dies for the last time.
	pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_messages SET next_retry_at = now() WHERE id = $1`, l.ID)
	again := m.ClaimDue(t, 1)
	taken := m.Read(t, l.ID)
	if m.End(t, lost, dlq.Acknowledged) {
		t.Error("the end of a lost retry was stored while another one holds the letter")
	}
	if diff := cmp.Diff(taken, m.Read(t, l.ID)); diff != "" {
		t.Errorf("an end changed a letter that another retry holds:\n%s", diff)
	}
	m.HandOver(t, again...)
	m.Expire(t)
	if _, err := m.Queue.Reclaim(t.Context(), 10, pgtest.Chance); err != nil {
		t.Fatal(err)
	}
	if got := m.Read(t, l.ID); got.Status != dlq.Dead || got.Resolution != dlq.Exhausted || got.RetryCount != 3 {
		t.Errorf("%s %s after %d", got.Status, got.Resolution, got.RetryCount)
	}
}

func TestFinishAndReclaimAgreeInEitherOrder(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	for range 15 {
		l := m.PushAll(t, m.Due())[0]
		d := m.ClaimDue(t, 1)[0]
		m.HandOver(t, d)
		m.Expire(t)
		var held bool
		var reclaimed int
		var both sync.WaitGroup
		both.Go(func() { held = m.End(t, d, dlq.Acknowledged) })
		both.Go(func() {
			var err error
			if reclaimed, err = m.Queue.Reclaim(t.Context(), 10, pgtest.Chance); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		got := m.Read(t, l.ID)
		if held == (reclaimed == 1) || held != (got.Status == dlq.Resolved) || got.RetryCount != reclaimed {
			t.Fatalf("held %v, reclaimed %d, then %s after %d", held, reclaimed, got.Status, got.RetryCount)
		}
		pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_messages SET next_retry_at = NULL WHERE id = $1`, l.ID)
	}
}

func TestOnlyTheHolderExtendsALease(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	m.PushAll(t, m.Due(), m.Due())
	drives := m.ClaimDue(t, 2)
	m.End(t, drives[0], dlq.Acknowledged)
	held, err := m.Queue.Extend(t.Context(), []uuid.UUID{drives[0].Token, drives[1].Token, pgtest.NewID()}, time.Hour)
	if err != nil || !slices.Equal(held, []uuid.UUID{drives[1].Token}) {
		t.Fatalf("held %v, %v", held, err)
	}
	if l := m.Read(t, drives[1].ID); l.LeaseUntil.Sub(pgtest.Now()) < 50*time.Minute {
		t.Errorf("its lease ends %v", l.LeaseUntil)
	}
}

func TestWorkThatContinuesElsewhereIsNotReclaimed(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	hook, delivery := pgtest.NewID(), pgtest.NewID()
	l := m.Due(func(l *dlq.Letter) { l.Link.WebhookID, l.Link.DeliveryID = hook, delivery })
	l.Source = dlq.FromWebhook
	m.PushAll(t, l)
	m.ClaimDue(t, 1)
	m.Expire(t)
	pgtest.Execute(t, m.DB.SQL(), `
		INSERT INTO saga.webhooks (tenant_id, id, url, event_types, workflow_names, enabled, disabled_reason, created_by, version, created_at, updated_at, cursor_txid, cursor_id)
		VALUES ($1, $2, 'https://x', '{}', '{}', true, '', '', 1, now(), now(), '0', 0)`, m.Tenant, hook)
	pgtest.Execute(t, m.DB.SQL(), `
		INSERT INTO saga.webhook_deliveries (tenant_id, webhook_id, id, event_id, event_type, saga_id, body, status, due_at, created_at)
		VALUES ($1, $2, $3, 1, 'x', $3, '{}', 'pending', now(), now())`, m.Tenant, hook, delivery)
	if n, err := m.Queue.Reclaim(t.Context(), 10, pgtest.Chance); err != nil || n != 0 {
		t.Fatalf("reclaimed %d, %v", n, err)
	}
	if got := m.Read(t, l.ID); got.Status != dlq.Retrying || got.LeaseUntil.Before(pgtest.Now()) {
		t.Errorf("%s until %v", got.Status, got.LeaseUntil)
	}
	pgtest.Execute(t, m.DB.SQL(), `DELETE FROM saga.webhook_deliveries WHERE id = $1`, delivery)
	m.Expire(t)
	if n, err := m.Queue.Reclaim(t.Context(), 10, pgtest.Chance); err != nil || n != 1 {
		t.Fatalf("reclaimed %d, %v", n, err)
	}
}

func TestALetterOfACompensatingSagaIsNotReclaimed(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	pgtest.Registered(t, m.DB)
	k := pgtest.Lettered{T: t, DB: m.DB.SQL(), Sagas: sagadb.NewSagas(m.DB), Letters: m.Letters}
	run := k.Begun(1)[0]
	m.Tenant = run.Tenant.ID
	ofSaga := func(id uuid.UUID) dlq.Letter {
		l := m.Due(func(l *dlq.Letter) { l.Link = dlq.Link{SagaID: id, StepName: "charge", Action: "COMPENSATE"} })
		l.Source = dlq.FromSaga
		return l
	}
	undone, gone := ofSaga(run.ID), ofSaga(pgtest.NewID())
	m.PushAll(t, undone, gone)
	m.HandOver(t, m.ClaimDue(t, 2)...)
	m.Expire(t)
	if n, err := m.Queue.Reclaim(t.Context(), 10, pgtest.Chance); err != nil || n != 1 {
		t.Fatalf("reclaimed %d, %v; want the one without a saga", n, err)
	}
	if a, b := m.Read(t, undone.ID), m.Read(t, gone.ID); a.Status != dlq.Retrying || a.RetryCount != 0 ||
		b.Status != dlq.Pending || b.RetryCount != 1 {
		t.Errorf("the saga's is %s after %d, the other %s after %d", a.Status, a.RetryCount, b.Status, b.RetryCount)
	}
}
