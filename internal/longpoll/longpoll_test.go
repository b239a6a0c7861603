package longpoll_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/longpoll"
)

func TestOnlyWhatAnotherNodeHasAskedForIsSent(t *testing.T) {
	var fromA, fromB []string
	now := time.Unix(1_000_000, 0)
	clock := func() time.Time { return now }
	a := longpoll.New(longpoll.Config{Now: clock, Send: func(m string) { fromA = append(fromA, m) }})
	b := longpoll.New(longpoll.Config{Now: clock, Send: func(m string) { fromB = append(fromB, m) }})
	key := func() longpoll.Key { return longpoll.Key{Kind: longpoll.Saga, Tenant: uuid.New(), ID: uuid.New()} }
	asked, other, late := key(), key(), key()
	w := b.Watch(asked)
	defer w.Stop()
	w.Ask()
	b.Receive(fromB[0]) // its own message, which it ignores
	a.Receive(fromB[0])
	a.Ended(other, nil)
	if len(fromA) != 0 {
		t.Errorf("sent without having been asked: %q", fromA)
	}
	a.Ended(asked, "committed")
	if len(fromA) != 1 {
		t.Fatalf("sent %q, want one answer", fromA)
	}
	b.Receive(fromA[0])
	select {
	case got := <-w.Done:
		if got != nil {
			t.Errorf("another node's end came with %v", got)
		}
	default:
		t.Error("the answer did not arrive")
	}
	x := b.Watch(late)
	x.Ask()
	x.Stop()
	a.Receive(fromB[1])
	now = now.Add(time.Hour) // the requests that asked have ended
	a.Ended(late, nil)
	if len(fromA) != 1 || slices.Contains(fromA[1:], fromB[1]) {
		t.Errorf("sent %q to nobody", fromA[1:])
	}
}

func TestThoseWhoWaitAreBoundedAndLeave(t *testing.T) {
	now := 0
	b := longpoll.New(longpoll.Config{Max: 1, Count: func(n int) { now = n }})
	k := longpoll.Key{Kind: longpoll.JobRun, Tenant: uuid.New(), ID: uuid.New()}
	first := b.Watch(k)
	if b.Watch(k) != nil || now != 1 {
		t.Errorf("more than one waits: %d", now)
	}
	first.Stop()
	first.Stop()
	second := b.Watch(k)
	if second == nil || now != 1 {
		t.Fatalf("the place was not freed: %d", now)
	}
	b.Ended(k, "committed")
	if got := <-second.Done; got != "committed" {
		t.Errorf("received %v", got)
	}
	second.Stop()
	if now != 0 {
		t.Errorf("%d wait", now)
	}
}

// messages returns the configuration of a board that appends its messages to sent.
func messages(sent *[]string) longpoll.Config {
	return longpoll.Config{Send: func(m string) { *sent = append(*sent, m) }}
}

func TestAnEndIsTheAnswerToWhoeverAsksLater(t *testing.T) {
	var fromA, fromB []string
	a, b := longpoll.New(messages(&fromA)), longpoll.New(messages(&fromB))
	k := longpoll.Key{Kind: longpoll.Redrive, Tenant: uuid.New(), ID: uuid.New()}
	w := b.Watch(k)
	defer w.Stop()
	a.Ended(k, "committed") // while the question is on its way
	w.Ask()
	a.Receive(fromB[0])
	if len(fromA) != 1 {
		t.Fatalf("the question about an end of a moment ago is answered with %q", fromA)
	}
	late := a.Watch(k)
	defer late.Stop()
	select {
	case got := <-late.Done:
		if got != nil {
			t.Errorf("an end before the wait came as %v, which may have changed", got)
		}
	default:
		t.Error("a wait that begins after the end is not notified")
	}

	// Only the last ends are remembered.
	for range 4096 {
		a.Ended(longpoll.Key{Kind: longpoll.Saga, ID: uuid.New()}, nil)
	}
	forgotten := a.Watch(k)
	defer forgotten.Stop()
	select {
	case <-forgotten.Done:
		t.Error("an end is remembered for ever")
	default:
	}
}

func TestANodeDoesNotAskItself(t *testing.T) {
	var sent []string
	b := longpoll.New(messages(&sent))
	k := longpoll.Key{Kind: longpoll.Saga, Tenant: uuid.New(), ID: uuid.New()}
	w := b.Watch(k)
	defer w.Stop()
	w.Ask()
	b.Receive(sent[0])
	if b.Ended(k, nil); len(sent) != 1 {
		t.Errorf("the node answers its own question: %q", sent)
	}
}

func TestMessagesThatMakeNoSenseAreIgnored(t *testing.T) {
	var sent []string
	a, b := longpoll.New(messages(&sent)), longpoll.New(longpoll.Config{})
	k := longpoll.Key{Kind: longpoll.Saga, Tenant: uuid.New(), ID: uuid.New()}
	w, other := a.Watch(k), b.Watch(k)
	defer w.Stop()
	defer other.Stop()
	w.Ask()
	answer := "!" + sent[0][1:]
	for _, m := range []string{
		"", "!", "?", answer[:len(answer)-1], answer + "A", "+" + answer[1:], answer[:20] + "%" + answer[21:],
	} {
		b.Receive(m)
	}
	select {
	case <-other.Done:
		t.Error("notified by a message that makes no sense")
	default:
	}
	if b.Receive(answer); len(other.Done) != 1 {
		t.Error("not notified by the one that does")
	}
}
