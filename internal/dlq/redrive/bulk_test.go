package redrive_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
)

// redrive stores a redrive of these letters.
func (p *post) redrive(ids []uuid.UUID, change ...func(*dlq.Redrive)) dlq.Redrive {
	p.t.Helper()
	r := dlq.Redrive{TenantID: p.tenant, Action: dlq.BulkRetry, IDs: ids, Actor: "ada", Reason: "because"}
	for _, c := range change {
		c(&r)
	}
	r, err := dlq.NewRedrive(r, dlq.RedriveRequest{}, id(), dlq.RedriveLimits{DefaultRate: 5000, MaxRate: 10_000},
		moment().Now)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.redrives.Create(p.t.Context(), r, p.did(r, "create")); err != nil {
		p.t.Fatal(err)
	}
	return r
}

func (p *post) did(r dlq.Redrive, verb string) operator.Action {
	return operator.By{Actor: "ada"}.Did(id(), p.tenant, moment().Now, operator.Redrive, r.ID.String(), verb, nil)
}

func (p *post) read(r dlq.Redrive) dlq.Redrive {
	p.t.Helper()
	got, err := p.redrives.Get(p.t.Context(), p.tenant, r.ID)
	if err != nil {
		p.t.Fatal(err)
	}
	return got
}

// move applies a verb of an operator to a redrive, retrying when its version changes.
func (p *post) move(r dlq.Redrive, verb dlq.RedriveVerb) {
	p.t.Helper()
	p.await("the redrive to be "+string(verb), func() bool {
		moved, err := p.read(r).Moved(verb, "ada", moment().Now)
		if err != nil {
			p.t.Fatal(err)
		}
		return p.redrives.Change(p.t.Context(), moved, p.did(r, string(verb))) == nil
	})
}

func (p *post) awaitState(r dlq.Redrive, state dlq.RedriveState) dlq.Redrive {
	p.t.Helper()
	p.await("the redrive to be "+string(state), func() bool { return p.read(r).State == state })
	return p.read(r)
}

func TestTwoNodesShareARedrive(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	ids := p.push(200, false)
	bad := map[string]bool{}
	for _, letter := range ids[:7] {
		bad[letter.String()] = true
	}
	p.target.answers(func(lineage string, _ int) int {
		if bad[lineage] {
			return 400
		}
		return 200
	})
	r := p.redrive(ids, func(r *dlq.Redrive) { r.Transform = []byte(`[{"op":"replace","path":"/n","value":2}]`) })
	run(t, p.config(t))
	run(t, p.config(t))
	got := p.awaitState(r, dlq.RedriveCompleted)
	if got.Matched != 200 || got.Done != 193 || got.Failed != 7 || got.Skipped != 0 {
		t.Errorf("%+v", got)
	}
	p.target.mu.Lock()
	defer p.target.mu.Unlock()
	for _, letter := range ids {
		// A failed letter is later due automatically.
		if n := p.target.got[letter.String()]; n != 1 && !bad[letter.String()] {
			t.Errorf("letter %s was sent %d times", letter, n)
		}
	}
	if i := slices.IndexFunc(p.target.bodies, func(b string) bool { return b != `{"n":2}` && b != `{"n":1}` }); i >= 0 {
		t.Errorf("sent %s", p.target.bodies[i])
	}
}

func TestARedriveOfADeadNodeIsCompletedByAnother(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	ids := p.push(40, false)
	r := p.redrive(ids, func(r *dlq.Redrive) { r.Rate = 10_000 })
	dead := p.config(t)
	dead.Queue, dead.Redrives = cutOff{p.queue}, cutOffRedrives{p.redrives}
	stop := run(t, dead)
	<-p.target.news
	stop()
	held := p.statuses()[dlq.Retrying]
	if held == 0 {
		t.Fatal("nothing was left behind")
	}
	p.expireLeases()
	run(t, p.config(t))
	p.await("the redrive to be complete", func() bool {
		p.expireItems()
		return p.read(r).State == dlq.RedriveCompleted
	})
	if got := p.read(r); got.Matched != 40 || got.Done+got.Skipped != 40 || got.Failed != 0 {
		t.Errorf("%+v", got)
	}
	if n := p.statuses()[dlq.Resolved]; n != 40 {
		t.Errorf("%d letters are resolved", n)
	}
	if n := p.target.requests(); n > 40+int(held) {
		t.Errorf("%d requests: %d letters were left behind", n, held)
	}
}

// expireItems ends the leases of items whose letters are not being driven.
func (p *post) expireItems() {
	p.t.Helper()
	_, err := p.db.SQL().ExecContext(p.t.Context(), `
		UPDATE dlq.dlq_redrive_items i SET lease_until = now() - interval '1 second' FROM dlq.dlq_messages m
		 WHERE m.id = i.message_id AND i.state = 'TAKEN' AND m.status <> 'RETRYING'`)
	if err != nil {
		p.t.Fatal(err)
	}
}

type cutOffRedrives struct{ dlq.Redrives }

func (cutOffRedrives) FinishItems(context.Context, uuid.UUID, []dlq.Finish) error { return errCutOff }

func TestAFailingRedriveHalts(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.target.answers(func(string, int) int { return 400 })
	ids := p.push(50, false)
	r := p.redrive(ids, func(r *dlq.Redrive) { r.Rate, r.StopOn = 20, dlq.StopOn{Failures: 3} })
	run(t, p.config(t))
	got := p.awaitState(r, dlq.RedriveHalted)
	if got.HaltReason != "failures" || got.Failed < 3 || got.Failed == 50 {
		t.Errorf("%+v", got)
	}
}

func TestARedriveIsPausedResumedAndCanceled(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	ids := p.push(30, false)
	r := p.redrive(ids, func(r *dlq.Redrive) { r.Rate = 5 })
	run(t, p.config(t))
	<-p.target.news
	p.move(r, dlq.PauseRedrive)
	p.await("what is on its way to end", func() bool { return p.statuses()[dlq.Retrying] == 0 })
	paused := p.read(r)
	if paused.State != dlq.RedrivePaused || paused.Done == 0 || paused.Done == 30 {
		t.Fatalf("%+v", paused)
	}
	p.move(r, dlq.ResumeRedrive)
	p.await("another letter", func() bool { return p.read(r).Done > paused.Done })
	p.move(r, dlq.CancelRedrive)
	p.await("what is on its way to end", func() bool { return p.statuses()[dlq.Retrying] == 0 })
	if got := p.read(r); got.State != dlq.RedriveCanceled || got.Done == 30 || got.EndedAt == nil {
		t.Errorf("%+v", got)
	}
}

func TestActionsOfRedrivesAreApplied(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	ids := p.push(70, true)
	r := p.redrive(nil, func(r *dlq.Redrive) { r.Action, r.Filter = dlq.BulkDiscard, &dlq.Filter{Topic: "orders"} })
	cfg := p.config(t)
	cfg.Drivers = nil // nothing is driven automatically
	run(t, cfg)
	if got := p.awaitState(r, dlq.RedriveCompleted); got.Done != 70 {
		t.Errorf("%+v", got)
	}
	if l := p.get(ids[69]); l.Status != dlq.Dead || l.Resolution != dlq.Discarded {
		t.Errorf("%s %s", l.Status, l.Resolution)
	}
}
