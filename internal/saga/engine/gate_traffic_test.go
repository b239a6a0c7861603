package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga/registry"
)

// A participant with a constant stream of sagas is released like any other: sagas that arrive while
// the last waiting ones are let through do not keep its gate closed.
func TestAGateOpensThoughSagasCome(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.start("a", gated(w, "a"))
		w.participant("card")
		w.order("card", func(p registry.Participant) registry.Participant { return p.Hold("ann", "", "", now()) })
		d := named("card", "n")
		var all []uuid.UUID
		for range 50 {
			all = append(all, n.create(d))
		}
		w.untilEndedOr(all...)
		w.order("card", func(p registry.Participant) registry.Participant { p, _ = p.Release("", 0, now()); return p })
		for begun := time.Now(); w.gateOf("card").Gate.State != registry.Open; synctest.Wait() {
			if time.Since(begun) > time.Minute {
				t.Fatalf("its gate is %+v after a minute", w.gateOf("card").Gate)
			}
			all = append(all, n.create(d))
			time.Sleep(70 * time.Millisecond)
		}
		w.untilEnded(all...)
	})
}
