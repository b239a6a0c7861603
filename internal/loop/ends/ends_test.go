package ends_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/loop/ends"
)

func TestOnlyWhatAnotherNodeHasAskedForIsSent(t *testing.T) {
	var fromA, fromB []string
	now := time.Unix(1_000_000, 0)
	clock := func() time.Time { return now }
	a := ends.New(ends.Config{Now: clock, Tell: func(m string) { fromA = append(fromA, m) }})
	b := ends.New(ends.Config{Now: clock, Tell: func(m string) { fromB = append(fromB, m) }})
	key := func() ends.Key { return ends.Key{Kind: ends.Saga, Tenant: uuid.New(), ID: uuid.New()} }
	asked, other, late := key(), key(), key()
	w := b.Watch(asked)
	defer w.Stop()
	w.Ask()
	b.Hear(fromB[0]) // its own: ignored
	a.Hear(fromB[0])
	a.Ended(other, nil)
	if len(fromA) != 0 {
		t.Errorf("sent without having been asked: %q", fromA)
	}
	a.Ended(asked, "committed")
	if len(fromA) != 1 {
		t.Fatalf("sent %q, want one answer", fromA)
	}
	b.Hear(fromA[0])
	select {
	case told := <-w.Told:
		if told != nil {
			t.Errorf("another node's end came with %v", told)
		}
	default:
		t.Error("the answer did not arrive")
	}
	x := b.Watch(late)
	x.Ask()
	x.Stop()
	a.Hear(fromB[1])
	now = now.Add(time.Hour) // who asked has gone
	a.Ended(late, nil)
	if len(fromA) != 1 || slices.Contains(fromA[1:], fromB[1]) {
		t.Errorf("sent %q to nobody", fromA[1:])
	}
}

func TestThoseWhoWaitAreBoundedAndLeave(t *testing.T) {
	waiting := 0
	b := ends.New(ends.Config{Max: 1, Count: func(n int) { waiting = n }})
	k := ends.Key{Kind: ends.JobRun, Tenant: uuid.New(), ID: uuid.New()}
	first := b.Watch(k)
	if b.Watch(k) != nil || waiting != 1 {
		t.Errorf("more than one waits: %d", waiting)
	}
	first.Stop()
	first.Stop()
	second := b.Watch(k)
	if second == nil || waiting != 1 {
		t.Fatalf("the place was not freed: %d", waiting)
	}
	b.Ended(k, "committed")
	if told := <-second.Told; told != "committed" {
		t.Errorf("told %v", told)
	}
	second.Stop()
	if waiting != 0 {
		t.Errorf("%d wait", waiting)
	}
}

// messages is the configuration of a board whose messages are kept in sent.
func messages(sent *[]string) ends.Config {
	return ends.Config{Tell: func(m string) { *sent = append(*sent, m) }}
}

func TestAnEndIsTheAnswerToWhoeverAsksLater(t *testing.T) {
	var fromA, fromB []string
	a, b := ends.New(messages(&fromA)), ends.New(messages(&fromB))
	k := ends.Key{Kind: ends.Redrive, Tenant: uuid.New(), ID: uuid.New()}
	w := b.Watch(k)
	defer w.Stop()
	a.Ended(k, "committed") // while the question is on its way
	w.Ask()
	a.Hear(fromB[0])
	if len(fromA) != 1 {
		t.Fatalf("the question about an end of a moment ago is answered with %q", fromA)
	}
	late := a.Watch(k)
	defer late.Stop()
	select {
	case told := <-late.Told:
		if told != nil {
			t.Errorf("what ended before is told as %v, which may have changed", told)
		}
	default:
		t.Error("whoever begins to wait after the end is not told")
	}

	// Only the last ends are remembered.
	for range 4096 {
		a.Ended(ends.Key{Kind: ends.Saga, ID: uuid.New()}, nil)
	}
	forgotten := a.Watch(k)
	defer forgotten.Stop()
	select {
	case <-forgotten.Told:
		t.Error("an end is remembered for ever")
	default:
	}
}

func TestANodeDoesNotAskItself(t *testing.T) {
	var sent []string
	b := ends.New(messages(&sent))
	k := ends.Key{Kind: ends.Saga, Tenant: uuid.New(), ID: uuid.New()}
	w := b.Watch(k)
	defer w.Stop()
	w.Ask()
	b.Hear(sent[0])
	if b.Ended(k, nil); len(sent) != 1 {
		t.Errorf("the node answers its own question: %q", sent)
	}
}

func TestMessagesThatMakeNoSenseAreIgnored(t *testing.T) {
	var sent []string
	a, b := ends.New(messages(&sent)), ends.New(ends.Config{})
	k := ends.Key{Kind: ends.Saga, Tenant: uuid.New(), ID: uuid.New()}
	w, other := a.Watch(k), b.Watch(k)
	defer w.Stop()
	defer other.Stop()
	w.Ask()
	answer := "!" + sent[0][1:]
	for _, m := range []string{
		"", "!", "?", answer[:len(answer)-1], answer + "A", "+" + answer[1:], answer[:20] + "%" + answer[21:],
	} {
		b.Hear(m)
	}
	select {
	case <-other.Told:
		t.Error("told by a message that makes no sense")
	default:
	}
	if b.Hear(answer); len(other.Told) != 1 {
		t.Error("not told by the one that does")
	}
}
