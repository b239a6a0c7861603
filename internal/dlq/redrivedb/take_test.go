package redrivedb_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestARedriveDrivesEachLetterOnce(t *testing.T) {
	t.Parallel()
	m := newRedriving(t)
	letters := m.pushed(t, 6)
	if _, err := m.Queue.Take(t.Context(), dlq.Claim{TenantID: m.Tenant, LetterID: letters[5].ID,
		Routes: dlq.Routes{Kinds: pgtest.KafkaOnly}, By: m.Action(letters[5], "retry")}, time.Minute); err != nil {
		t.Fatal(err)
	}
	r := m.create(t, m.redrive(t, dlq.BulkRetry, func(r *dlq.Redrive) {
		for _, l := range letters {
			r.IDs = append(r.IDs, l.ID)
		}
		r.Target = &dlq.Target{Kind: dlq.ToKafka, Topic: "retry"}
	}))
	first := m.take(t, r, 10)
	if len(first) != 1 { // the bucket starts with one token
		t.Fatalf("took %d at first", len(first))
	}
	d := first[0]
	drive := d
	drive.ID, drive.RedriveID, drive.Actor = letters[0].ID, r.ID, "ada"
	drive.To.Topic, drive.Status = "retry", dlq.Retrying
	if diff := cmp.Diff(drive, d); diff != "" {
		t.Errorf("the drive (-want +got):\n%s", diff)
	}
	m.full(t, r)
	rest := m.take(t, r, 10)
	if len(rest) != 4 {
		t.Fatalf("took %d", len(rest))
	}
	m.finish(t, r, dlq.Acknowledged, first...)
	m.finish(t, r, dlq.Acknowledged, first...) // the answer was lost
	m.finish(t, r, dlq.FailedDrive, rest[0])
	m.finish(t, r, dlq.Withdrawn, rest[1])
	m.finish(t, r, dlq.Acknowledged, rest[2:]...)
	m.full(t, r)
	again := m.take(t, r, 10)
	if len(again) != 1 || again[0].ID != rest[1].ID || again[0].RetryCount != 0 {
		t.Fatalf("a withdrawn one waits: %+v", again)
	}
	m.finish(t, r, dlq.Acknowledged, again...)
	got := m.judge(t, r)
	counted := got
	counted.State, counted.Done, counted.Failed, counted.Skipped = dlq.RedriveCompleted, 4, 1, 1
	if diff := cmp.Diff(counted, got); diff != "" || got.EndedAt == nil {
		t.Errorf("ended at %v (-want +got):\n%s", got.EndedAt, diff)
	}
	want := []dlq.ItemState{dlq.ItemDone, dlq.ItemFailed, dlq.ItemDone, dlq.ItemDone, dlq.ItemDone, dlq.ItemSkipped}
	if diff := cmp.Diff(want, m.items(t, r)); diff != "" {
		t.Error(diff)
	}
	if l := m.Read(t, letters[0].ID); l.RedriveID != r.ID || l.Resolution != dlq.Redriven {
		t.Errorf("letter %+v", l)
	}
}

func TestTheRateIsSharedByAllNodesOnTheDatabaseClock(t *testing.T) {
	t.Parallel()
	m := newRedriving(t)
	m.pushed(t, 100)
	r := m.create(t, m.redrive(t, dlq.BulkRetry, func(r *dlq.Redrive) { r.Rate = 20 }))
	began := pgtest.Ask[time.Time](t, m.DB.SQL(), `SELECT clock_timestamp()`)
	taken := 0
	for turn := 0; turn < 60 && taken < 60; turn++ { // two nodes take turns; letters are left in the end
		taken += len(m.take(t, r, 100))
	}
	// These are the tokens that the database's clock grants between the first and the last call.
	elapsed := pgtest.Ask[time.Time](t, m.DB.SQL(), `SELECT clock_timestamp()`).Sub(began)
	if most := 1 + int(20*elapsed.Seconds()) + 1; taken > most {
		t.Errorf("took %d in %v, want at most %d", taken, elapsed, most)
	}
	m.full(t, r)
	if n := len(m.take(t, r, 100)); n != 20 {
		t.Errorf("after an hour %d at once, want a second's worth", n)
	}
}

func TestACanaryIsWatchedBeforeTheRestFollows(t *testing.T) {
	t.Parallel()
	for name, bounced := range map[string]bool{"it passes": false, "it halts": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newRedriving(t)
			letters := m.pushed(t, 5)
			r := m.create(t,
				m.redrive(t, dlq.BulkRetry, func(r *dlq.Redrive) { r.Canary = &dlq.Canary{Count: 2, WatchSeconds: 60} }))
			m.full(t, r)
			batch := m.take(t, r, 10)
			m.full(t, r)
			if more := m.take(t, r, 10); len(batch) != 2 || more != nil {
				t.Fatalf("took %d and %d, want the canary alone", len(batch), len(more))
			}
			m.finish(t, r, dlq.Acknowledged, batch...)
			if got := m.judge(t, r); got.State != dlq.RedriveRunning || got.WatchedAt == nil {
				t.Fatalf("%+v", got)
			}
			if bounced {
				back := m.NewLetter(func(l *dlq.Letter) {
					l.Source, l.RootID, l.Generation = dlq.FromKafka, letters[0].ID, 1
					l.Arrived = &dlq.Position{Topic: "canary.dlq." + m.Tenant.String(), Offset: 1}
				})
				if _,
					err := m.Queue.Arrive(t.Context(),
					[]dlq.Arrival{{Letter: back, BounceOf: letters[0].ID, OnRedrive: r.ID}}); err != nil {
					t.Fatal(err)
				}
				got := m.judge(t, r)
				if got.State != dlq.RedriveHalted || got.HaltReason != "bounce_ratio" || got.Bounced != 1 || got.Done != 2 {
					t.Fatalf("%+v", got)
				}
				resumed, err := got.Moved(dlq.ResumeRedrive, "ada", pgtest.Now())
				if err != nil {
					t.Fatal(err)
				}
				if err := m.redrives.Change(t.Context(), resumed, m.did(r, "resume")); err != nil {
					t.Fatal(err)
				}
				if done, err := m.redrives.Gather(t.Context(), r, 10); err != nil || !done {
					t.Fatal(done, err)
				}
			} else {
				pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_redrives SET watched_at = watched_at - interval '2 minutes' WHERE id = $1`, r.ID)
				if got := m.judge(t, r); got.State != dlq.RedriveRunning || !got.CanaryOK {
					t.Fatalf("%+v", got)
				}
			}
			m.full(t, r)
			if rest := m.take(t, r, 10); len(rest) != 3 {
				t.Errorf("then took %d", len(rest))
			}
		})
	}
}

// Letters whose key is blocked do not prevent taking those behind them.
func TestLettersBehindABlockedKeyAreTaken(t *testing.T) {
	t.Parallel()
	m := newRedriving(t)
	ordered := func() dlq.Letter {
		l := m.NewLetter(func(l *dlq.Letter) { l.Content.Key = []byte("a") })
		l.Ordered = true
		return l
	}
	batch := m.PushAll(t, ordered(), ordered(), ordered(), ordered(), m.NewLetter(), m.NewLetter(), m.NewLetter())
	r := m.create(t, m.redrive(t, dlq.BulkRetry))
	for _, want := range [][]uuid.UUID{{batch[0].ID, batch[4].ID, batch[5].ID}, {batch[6].ID}} {
		m.full(t, r)
		var ids []uuid.UUID
		for _, d := range m.take(t, r, 3) {
			ids = append(ids, d.ID)
		}
		if !slices.Equal(ids, want) {
			t.Errorf("took %v, want %v", ids, want)
		}
	}
}

func TestLettersOfAKeyWaitForEachOther(t *testing.T) {
	t.Parallel()
	m := newRedriving(t)
	var batch []dlq.Letter
	for _, key := range []string{"a", "a", "b", "b", "", ""} {
		batch = append(batch, m.NewLetter(func(l *dlq.Letter) {
			if key != "" {
				l.Content.Key = []byte(key)
			}
		}))
	}
	batch = m.PushAll(t, batch...)
	r := m.create(t, m.redrive(t, dlq.BulkRetry, func(r *dlq.Redrive) { r.Order = dlq.PerKey }))
	m.full(t, r)
	first := m.take(t, r, 10)
	var ids []uuid.UUID
	for _, d := range first {
		ids = append(ids, d.ID)
	}
	if !slices.Equal(ids, []uuid.UUID{batch[0].ID, batch[2].ID, batch[4].ID, batch[5].ID}) {
		t.Fatalf("took %v of %v", ids, batch)
	}
	m.full(t, r)
	if more := m.take(t, r, 10); more != nil {
		t.Fatalf("took %d beside them", len(more))
	}
	m.finish(t, r, dlq.Acknowledged, first[0], first[2], first[3])
	m.finish(t, r, dlq.FailedDrive, first[1])
	m.full(t, r)
	second := m.take(t, r, 10)
	if len(second) != 1 || second[0].ID != batch[1].ID {
		t.Fatalf("then took %d", len(second))
	}
	m.finish(t, r, dlq.Acknowledged, second...)
	got := m.judge(t, r)
	if got.State != dlq.RedriveCompleted || got.Done != 4 || got.Failed != 1 || got.Skipped != 1 {
		t.Errorf("%+v", got)
	}
	items, err := m.redrives.Items(t.Context(), m.Tenant, r.ID, []dlq.ItemState{dlq.ItemSkipped},
		page.Request[int64]{Limit: 10})
	if err != nil || len(items.Items) != 1 || items.Items[0].LetterID != batch[3].ID || items.Items[0].Detail == "" {
		t.Errorf("skipped %+v, %v", items, err)
	}
}

func TestLettersOfADeadNodeAreDrivenAgainAndCountedOnce(t *testing.T) {
	t.Parallel()
	m := newRedriving(t)
	letters := m.pushed(t, 3)
	r := m.create(t, m.redrive(t, dlq.BulkRetry))
	m.full(t, r)
	lost := m.take(t, r, 10) // and then it dies
	m.HandOver(t, lost...)
	m.Expire(t)
	pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_redrive_items SET lease_until = now() - interval '1 second' WHERE state = 'TAKEN'`)
	if got := m.judge(t, r); got.State != dlq.RedriveRunning || got.Done+got.Failed != 0 {
		t.Fatalf("%+v", got)
	}
	if _, err := m.Queue.Reclaim(t.Context(), 10, pgtest.Chance); err != nil {
		t.Fatal(err)
	}
	pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_redrive_items SET lease_until = now() - interval '1 second' WHERE state = 'TAKEN'`)
	m.judge(t, r)
	if diff := cmp.Diff([]dlq.ItemState{dlq.ItemWaiting, dlq.ItemWaiting, dlq.ItemWaiting}, m.items(t, r)); diff != "" {
		t.Fatal(diff)
	}
	m.full(t, r)
	again := m.take(t, r, 10)
	m.finish(t, r, dlq.Acknowledged, lost...) // it was only slow and reports after all
	if got := m.read(t, r); got.Done != 0 {
		t.Errorf("who lost the letters counted %d", got.Done)
	}
	m.finish(t, r, dlq.Acknowledged, again...)
	got := m.judge(t, r)
	want := got
	want.State, want.Done, want.Sent, want.MaybeSent, want.Repeated = dlq.RedriveCompleted, 3, 3, 0, 3
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sent again (-want +got):\n%s", diff)
	}
	for _, l := range letters {
		if got := m.Read(t, l.ID); got.Status != dlq.Resolved || got.RetryCount != 1 {
			t.Errorf("%s after %d", got.Status, got.RetryCount)
		}
	}
}

func TestAnAcceptedLetterCountsWhenItsTargetReports(t *testing.T) {
	t.Parallel()
	m := newRedriving(t)
	m.pushed(t, 2)
	r := m.create(t, m.redrive(t, dlq.BulkRetry))
	m.full(t, r)
	accepted := m.take(t, r, 10)
	// The target reports to the letters, but nothing reports to the redrive.
	for i, outcome := range []dlq.AttemptOutcome{dlq.Acknowledged, dlq.FailedDrive} {
		if _, err := m.Queue.Finish(t.Context(), []dlq.Finish{pgtest.EndOf(accepted[i], outcome)}); err != nil {
			t.Fatal(err)
		}
	}
	pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_redrive_items SET lease_until = now() - interval '1 second' WHERE state = 'TAKEN'`)
	if got := m.judge(t, r); got.State != dlq.RedriveCompleted || got.Done != 1 || got.Failed != 1 {
		t.Errorf("%+v", got)
	}
}
