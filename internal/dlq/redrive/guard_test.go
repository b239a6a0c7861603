package redrive_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/redrive"
	"github.com/skald-saga/skald/internal/page"
)

// resume resumes a redrive, with a new guard unless stop is nil.
func (p *post) resume(r dlq.Redrive, stop *dlq.StopOn) {
	p.t.Helper()
	p.await("the redrive to be resumed", func() bool {
		moved, err := p.read(r).Resumed(stop, "ada", moment().Now)
		if err != nil {
			p.t.Fatal(err)
		}
		return p.redrives.Change(p.t.Context(), moved, p.did(r, "resume")) == nil
	})
}

// retried sets whether letters of the topic are retried automatically; version is that
// of its policy.
func (p *post) retried(version int64, auto bool) {
	p.t.Helper()
	own := policy
	own.TenantID, own.Topic, own.Version, own.AutoRetry, own.UpdatedAt = p.tenant, "orders", version, auto, moment().Now
	by := operator.By{}.Did(id(), p.tenant, moment().Now, operator.TopicPolicy, "orders", "update", nil)
	if err := p.letters.PutPolicy(p.t.Context(), own, by); err != nil {
		p.t.Fatal(err)
	}
}

// A guard of ten failures is useless if the letters of a whole second are in flight.
func TestAGuardStopsWithNoMoreThanWasInFlight(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.retried(1, false) // failed letters are not retried in the meantime
	ids := p.push(300, false)
	p.target.answers(func(string, int) int { return http.StatusServiceUnavailable })
	r := p.redrive(ids, func(r *dlq.Redrive) { r.Rate, r.StopOn = 10_000, dlq.StopOn{Failures: 10} })
	p.full(r)
	run(t, p.config(t))
	first := p.awaitState(r, dlq.RedriveHalted)
	if most := 10 + int64(dlq.DefaultConcurrency); first.Failed < 10 || first.Failed > most ||
		first.HaltReason != "failures" {
		t.Fatalf("halted after %d failures, want 10 to %d: %+v", first.Failed, most, first)
	}
	// The limits of the guard are kept, and count from here.
	p.resume(r, nil)
	p.await("a second halt", func() bool { return p.read(r).Halts == 2 })
	second := p.awaitState(r, dlq.RedriveHalted)
	if n := second.Failed - first.Failed; n < 10 || n > 18 || second.StopOn.Failures != 10 {
		t.Errorf("halted after %d more failures: %+v", n, second)
	}
	// The same holds for limits set while it was halted.
	p.resume(r, &dlq.StopOn{Failures: 25})
	p.await("a third halt", func() bool { return p.read(r).Halts == 3 })
	third := p.awaitState(r, dlq.RedriveHalted)
	if n := third.Failed - second.Failed; n < 25 || n > 33 {
		t.Errorf("halted after %d more failures: %+v", n, third)
	}
	if third.Sent != third.Failed || third.MaybeSent != 0 || third.NeverSent() != 300-third.Failed || third.Repeated != 0 {
		t.Errorf("%d failed, and it tells %d sent, %d perhaps, %d again", third.Failed, third.Sent, third.MaybeSent, third.Repeated)
	}
	if p.target.requests() != int(third.Sent) {
		t.Errorf("the target has seen %d, and it tells %d", p.target.requests(), third.Sent)
	}
	found, err := auditdb.NewActions(p.db).Actions(t.Context(), p.tenant, operator.Filter{Kind: operator.Redrive,
		Subject: r.ID.String(), Verb: dlq.VerbHalt, ByTime: page.ByTime{Limit: 10}})
	if err != nil || len(found.Items) != 3 {
		t.Fatalf("%d halts are in the audit trail, %v", len(found.Items), err)
	}
	if a := found.Items[0]; a.Actor != "" || !strings.Contains(string(a.Detail), `"halt_reason":"failures"`) {
		t.Errorf("%+v %s", a, a.Detail)
	}
	// The last failure is still reported after the redrive is resumed.
	p.target.answers(func(string, int) int { return http.StatusOK })
	p.resume(r, nil)
	got := p.awaitState(r, dlq.RedriveCompleted)
	want := got
	want.Halts, want.LastHalt, want.HaltReason, want.Sent = 3, "failures", "", 300
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after it went on (-want +got):\n%s", diff)
	}
	if got.LastHaltedAt == nil {
		t.Error("nobody knows when it halted last")
	}
}

// Letters claimed and not yet handed over when the redrive is paused are not sent.
func TestAPauseStopsLettersNotYetHandedOver(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.retried(1, false)
	ids := p.push(20, false)
	answer := make(chan struct{})
	p.target.answers(func(string, int) int { <-answer; return http.StatusOK })
	r := p.redrive(ids, func(r *dlq.Redrive) { r.Rate, r.Concurrency = 10_000, 2 })
	p.full(r)
	run(t, p.config(t))
	p.await("a batch to be claimed", func() bool { return p.statuses()[dlq.Retrying] == 20 })
	p.move(r, dlq.PauseRedrive)
	close(answer)
	p.await("what was claimed to be given back", func() bool { return p.statuses()[dlq.Retrying] == 0 })
	got := p.read(r)
	want := got
	want.State, want.Done, want.Sent = dlq.RedrivePaused, int64(p.target.requests()), int64(p.target.requests())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paused (-want +got):\n%s", diff)
	}
	if got.Done > 2 || got.NeverSent() != 20-got.Done {
		t.Errorf("%d done, %d never sent", got.Done, got.NeverSent())
	}
	for _, letter := range ids {
		if l := p.get(letter); l.RetryCount != 0 {
			t.Errorf("letter %s has used up %d retries", letter, l.RetryCount)
		}
	}
	p.move(r, dlq.ResumeRedrive)
	if got := p.awaitState(r, dlq.RedriveCompleted); got.Done != 20 || got.Sent != 20 || got.NeverSent() != 0 ||
		p.target.requests() != 20 {
		t.Errorf("%d requests, %+v", p.target.requests(), got)
	}
}

func TestARedriveReportsAnUnreachableTarget(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	way, cfg := newFast(), p.config(t)
	cfg.Drivers = map[dlq.TargetKind]redrive.Driver{dlq.ToKafka: way}
	r := p.redrive(p.push(50, false, toKafka), func(r *dlq.Redrive) { r.Rate = 10_000 })
	p.full(r)
	run(t, cfg)
	p.await("the redrive to tell that it stands still", func() bool {
		now := p.read(r)
		since, _ := now.Stalled(time.Now())
		return since != nil
	})
	got := p.read(r)
	if _, what := got.Stalled(time.Now()); what != "kafka: topic orders" || got.ETA(time.Now()) != nil {
		t.Errorf("it waits for %q, and will be through at %v", what, got.ETA(time.Now()))
	}
	close(way.hold)
	if got := p.awaitState(r, dlq.RedriveCompleted); got.Sent != 50 {
		t.Errorf("%+v", got)
	}
}

// A policy that turns off automatic retries holds scheduled letters, and releases them when it
// turns them on again.
func TestAHeldTopicIsNotRetriedAutomatically(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.retried(1, false)
	p.push(40, true)
	other := p.push(1, true, func(l *dlq.Letter) { l.OriginalTopic = "others" })[0]
	run(t, p.config(t))
	p.await("the other topic's letter to be resolved", func() bool { return p.get(other).Status == dlq.Resolved })
	if n := p.target.requests(); n != 1 {
		t.Fatalf("%d requests, want the other topic's", n)
	}
	p.retried(2, true)
	p.await("all letters to be resolved", func() bool { return p.statuses()[dlq.Resolved] == 41 })
}

// A target that asks for a pause gets no further letters of the redrive. Waiting letters, including
// the rest of the batch, stay as they are, and the redrive reports the reason.
func TestARedriveWaitsAsLongAsItsTargetAsks(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.Header().Set("Retry-After", "1800")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	p := newPost(t)
	p.retried(1, false)
	ids := p.push(200, false, func(l *dlq.Letter) { l.Target = dlq.Target{Kind: dlq.ToHTTP, URL: url} })
	r := p.redrive(ids, func(r *dlq.Redrive) { r.Rate, r.Concurrency = 10_000, 4 })
	p.full(r)
	cfg := p.config(t)
	cfg.Drivers = map[dlq.TargetKind]redrive.Driver{dlq.ToHTTP: httpDriver(t, time.Minute, 4)}
	run(t, cfg)
	p.await("the redrive to wait for its target", func() bool {
		now := p.read(r)
		_, what := now.Stalled(time.Now())
		return strings.Contains(what, "asked not to be called until")
	})
	got := p.read(r)
	if n := calls.Load(); n == 0 || n > 8 || got.Failed != n || got.Left() != 200-n || got.State != dlq.RedriveRunning {
		t.Errorf("%d calls, %d failed, %d left: %s", n, got.Failed, got.Left(), got.State)
	}
}
