package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga/engine"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// counter counts the lines of a log per saga.
type counter struct {
	mu    sync.Mutex
	lines map[string]int
}

func (c *counter) Enabled(context.Context, slog.Level) bool { return true }
func (c *counter) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *counter) WithGroup(string) slog.Handler            { return c }

func (c *counter) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "cannot read a saga's workflow definition" {
		return nil
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "saga_id" {
			c.mu.Lock()
			c.lines[a.Value.String()]++
			c.mu.Unlock()
		}
		return true
	})
	return nil
}

// A bad restore has damaged a definition for an hour. The log of the node that owns its sagas gets
// a line at growing intervals, not one for each poll of each loop, and the sagas continue soon
// after the definition is repaired.
func TestADamagedDefinitionIsToldAtGrowingIntervals(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		log := &counter{lines: map[string]int{}}
		damaged := true
		w.start("a", func(c *engine.Config) {
			c.Log = slog.New(log)
			c.Definition = func(ctx context.Context, home uuid.UUID, name string, version int) (*workflow.Definition, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if damaged {
					return nil, errors.New("it cannot be read")
				}
				return w.definition(ctx, home, name, version)
			}
		})
		ids := []uuid.UUID{w.createUnowned(steps("uu"))}
		overdue := steps("uu")
		overdue.Name, overdue.TimeoutMS = "overdue", 1000 // the reaper finds the saga as well
		ids = append(ids, w.createUnowned(overdue))
		time.Sleep(time.Hour)
		for _, id := range ids {
			// 1, 2, 4, … 32 seconds, and then a minute, give or take the jitter.
			log.mu.Lock()
			n := log.lines[id.String()]
			log.mu.Unlock()
			if n < 30 || n > 130 {
				t.Errorf("%d lines within an hour for saga %s", n, id)
			}
			w.wake(id) // for example, a flag set by another node
		}
		w.mu.Lock()
		damaged = false
		w.mu.Unlock()
		time.Sleep(3 * time.Minute)
		for _, id := range ids {
			if got := w.state(id); !got.Terminal() {
				t.Errorf("three minutes after the definition was mended the saga is %s", got)
			}
		}
	})
}
