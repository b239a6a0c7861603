package redrive_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/redrive"
)

// fast is a driver that never blocks, and records what it drives.
type fast struct {
	hold chan struct{} // nothing is driven until it is closed

	mu     sync.Mutex
	driven []uuid.UUID // guarded by mu
}

func newFast() *fast { return &fast{hold: make(chan struct{})} }

func (f *fast) Drive(_ context.Context, batch []dlq.Drive) []dlq.Result {
	<-f.hold
	out := make([]dlq.Result, len(batch))
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range batch {
		f.driven = append(f.driven, batch[i].ID)
		out[i] = dlq.Result{Outcome: dlq.Acknowledged, StartedAt: moment().Now, EndedAt: moment().Now}
	}
	return out
}

// full fills the token bucket of a redrive.
func (p *post) full(r dlq.Redrive) {
	p.t.Helper()
	if _, err := p.db.SQL().ExecContext(p.t.Context(), `UPDATE dlq.dlq_redrives SET granted_at = now() - interval '1 hour' WHERE id = $1`, r.ID); err != nil {
		p.t.Fatal(err)
	}
}

func toKafka(l *dlq.Letter) { l.Target = dlq.Target{Kind: dlq.ToKafka, Topic: "orders"} }

func TestABatchIsClaimedWhileTheOneBeforeIsInFlight(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	way, cfg := newFast(), p.config(t)
	cfg.Drivers = map[dlq.TargetKind]redrive.Driver{dlq.ToKafka: way}
	ids := p.push(70, false, toKafka)
	r := p.redrive(ids, func(r *dlq.Redrive) { r.Rate = 10_000 })
	p.full(r)
	run(t, cfg)
	p.await("two batches of 20 to be claimed", func() bool { return p.statuses()[dlq.Retrying] == 40 })
	close(way.hold)
	if got := p.awaitState(r, dlq.RedriveCompleted); got.Done != 70 || got.Failed+got.Skipped != 0 {
		t.Errorf("%+v", got)
	}
	if !slices.Equal(way.driven, ids) {
		t.Errorf("%d letters were driven, not each once in its order", len(way.driven))
	}
}

func TestLettersOfAKeyAreDrivenOneByOneAlthoughBatchesOverlap(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	way, cfg := newFast(), p.config(t)
	close(way.hold)
	cfg.Drivers = map[dlq.TargetKind]redrive.Driver{dlq.ToKafka: way}
	const keys, each = 30, 3
	var ids []uuid.UUID
	key := map[uuid.UUID]int{}
	for range each {
		for k := range keys {
			letter := p.push(1, false, toKafka, func(l *dlq.Letter) { l.Content.Key = fmt.Append(nil, k) })
			key[letter[0]] = k
			ids = append(ids, letter...)
		}
	}
	r := p.redrive(ids, func(r *dlq.Redrive) { r.Rate, r.Order = 10_000, dlq.PerKey })
	p.full(r)
	run(t, cfg)
	if got := p.awaitState(r, dlq.RedriveCompleted); got.Done != keys*each {
		t.Errorf("%+v", got)
	}
	next := map[int]int{} // by key: how many letters have been driven
	for _, letter := range way.driven {
		k := key[letter]
		if want := ids[next[k]*keys+k]; letter != want {
			t.Fatalf("of key %d %s was driven, not %s", k, letter, want)
		}
		next[k]++
	}
}

func TestAnAcceptedLetterIsCountedSoonAfterItsTargetReports(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	accepted := make(chan dlq.Drive, 1)
	cfg := p.config(t)
	cfg.Lease = 10 * time.Minute // longer than any test waits
	cfg.Drivers = map[dlq.TargetKind]redrive.Driver{dlq.ToSaga: told(func(d dlq.Drive) dlq.Result {
		accepted <- d
		return dlq.Result{Accepted: true, Outcome: dlq.Uncertain}
	})}
	letter := p.push(1, false, func(l *dlq.Letter) { l.Target = dlq.Target{Kind: dlq.ToSaga} })
	r := p.redrive(letter)
	run(t, cfg)
	d := <-accepted
	told := dlq.Result{Outcome: dlq.Acknowledged, StartedAt: moment().Now, EndedAt: moment().Now}
	end, err := d.Finished(told, &policy, moment())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.queue.Finish(t.Context(), []dlq.Finish{end}); err != nil {
		t.Fatal(err)
	}
	if got := p.awaitState(r, dlq.RedriveCompleted); got.Done != 1 || got.Failed != 0 {
		t.Errorf("%+v", got)
	}
}
