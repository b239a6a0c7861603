package engine_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-saga/skald/internal/saga/engine"
)

// A node that becomes unfit hands over its sagas without losing the call in flight, and takes part
// again once it is fit.
func TestAnUnfitNodeResignsAndComesBack(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var unfit atomic.Bool
		n := w.start("a", unjittered, func(c *engine.Config) {
			c.Unfit = func() error {
				if unfit.Load() {
					return errors.New("its clock is wrong")
				}
				return nil
			}
		})
		id := w.callsForever(n)
		time.Sleep(time.Minute)
		unfit.Store(true)
		time.Sleep(ttl)
		synctest.Wait()
		sent := len(w.participants.of(id))
		if n.engine.Healthy() == nil {
			t.Error("an unfit node is healthy")
		}
		other := w.start("b")
		time.Sleep(2 * time.Second) // its sagas were handed over, so no lease has to expire
		if calls := w.participants.of(id); len(calls) == sent {
			t.Error("no other node has taken the saga over")
		}
		other.stop()
		sent = len(w.participants.of(id))
		time.Sleep(time.Minute)
		if more := len(w.participants.of(id)) - sent; more > 0 {
			t.Errorf("an unfit node makes %d calls", more)
		}
		unfit.Store(false)
		time.Sleep(2 * time.Second)
		if err := n.engine.Healthy(); err != nil || len(w.participants.of(id)) == sent {
			t.Errorf("once it is fit again: %v, %d calls", err, len(w.participants.of(id))-sent)
		}
	})
}
