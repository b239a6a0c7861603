package redrive_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
)

// cutOff is a queue whose writes fail after the letters were sent, as if the node had died.
type cutOff struct{ dlq.Queue }

var errCutOff = errors.New("cut off")

func (cutOff) Finish(context.Context, []dlq.Finish) ([]bool, error) { return nil, errCutOff }
func (cutOff) Extend(context.Context, []uuid.UUID, time.Duration) ([]uuid.UUID, error) {
	return nil, errCutOff
}

func (p *post) expireLeases() {
	p.t.Helper()
	for _, statement := range []string{
		`UPDATE dlq.dlq_messages SET retry_lease_until = now() - interval '1 second' WHERE status = 'RETRYING'`,
		`UPDATE dlq.dlq_redrive_items SET lease_until = now() - interval '1 second' WHERE state = 'TAKEN'`,
	} {
		if _, err := p.db.SQL().ExecContext(p.t.Context(), statement); err != nil {
			p.t.Fatal(err)
		}
	}
}

func TestLettersHeldByADeadNodeAreDrivenAgain(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	ids := p.push(5, true)
	dead := p.config(t)
	dead.Queue = cutOff{p.queue}
	stop := run(t, dead)
	for range ids {
		<-p.target.news
	}
	stop()
	if n := p.statuses()[dlq.Retrying]; n != 5 {
		t.Fatalf("%d letters are held by nobody", n)
	}
	p.expireLeases()
	run(t, p.config(t))
	p.await("all letters to be resolved", func() bool { return p.statuses()[dlq.Resolved] == 5 })
	for _, letter := range ids {
		attempts, err := p.letters.Attempts(t.Context(), p.tenant, letter)
		if err != nil {
			t.Fatal(err)
		}
		if l := p.get(letter); l.RetryCount != 1 || len(attempts) != 2 || attempts[0].Outcome != dlq.Abandoned ||
			attempts[1].Outcome != dlq.Acknowledged {
			t.Errorf("after %d: %+v", l.RetryCount, attempts)
		}
	}
	if n := p.target.requests(); n != 10 {
		t.Errorf("%d requests, want two of each", n)
	}
}

func TestANodeThatStopsStoresWhatItHasSent(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	entered, answer := make(chan struct{}), make(chan struct{})
	p.target.answers(func(string, int) int { close(entered); <-answer; return 200 })
	letter := p.push(1, true)[0]
	stop := run(t, p.config(t))
	<-entered
	ended := make(chan struct{})
	go func() { stop(); close(ended) }()
	close(answer)
	<-ended
	if l := p.get(letter); l.Status != dlq.Resolved || p.target.requests() != 1 {
		t.Errorf("%s after %d requests", l.Status, p.target.requests())
	}
}

func TestALeaseIsExtendedWhileItsLetterIsDriven(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	cfg := p.config(t)
	cfg.Lease = 3 * time.Second
	letter := p.push(1, true)[0]
	prolonged, answer := make(chan struct{}), make(chan struct{})
	cfg.Queue = watched{p.queue, prolonged}
	p.target.answers(func(string, int) int { <-answer; return 200 })
	run(t, cfg)
	<-prolonged
	<-prolonged
	close(answer)
	p.await("the letter to be resolved", func() bool { return p.get(letter).Status == dlq.Resolved })
	if n := p.target.requests(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// watched reports when leases are extended.
type watched struct {
	dlq.Queue
	prolonged chan struct{}
}

func (w watched) Extend(ctx context.Context, tokens []uuid.UUID, lease time.Duration) ([]uuid.UUID, error) {
	held, err := w.Queue.Extend(ctx, tokens, lease)
	if len(held) == 1 {
		select {
		case w.prolonged <- struct{}{}:
		case <-ctx.Done():
		}
	}
	return held, err
}
