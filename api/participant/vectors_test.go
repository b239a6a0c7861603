package participant_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	_ "github.com/lib/pq"

	"github.com/skald-saga/skald/api/participant"
	"github.com/skald-saga/skald/internal/test/testdb"
	"github.com/skald-saga/skald/sdk/conformance"
)

// business is the function of a vector, together with its effects.
type business struct {
	v  conformance.Vector
	mu sync.Mutex
	n  map[participant.Action]int // number of invocations, including cancel; guarded by mu
	// inMemory holds the effects of a participant without a database by key; guarded by mu
	inMemory map[string]int
	insert   string // how an effect is written; "" means insertEffect
	begun    event  // the function was called
	awaited  event  // a call has arrived whose caller stays
}

// play is the function for both actions.
func (b *business) play(ctx context.Context, tx *sql.Tx, c *participant.Call) (any, error) {
	return b.scripted(ctx, tx, c, c.Action)
}

func (b *business) cancel(ctx context.Context, tx *sql.Tx, c *participant.Call) (any, error) {
	return b.scripted(ctx, tx, c, "cancel")
}

func (b *business) scripted(
	ctx context.Context, tx *sql.Tx, c *participant.Call, by participant.Action,
) (any, error) {
	b.mu.Lock()
	b.n[by]++
	all := b.n[participant.Execute] + b.n[participant.Compensate]
	o := conformance.Outcome{Outcome: "done"}
	if script := b.v.Participant[string(by)]; len(script) > 0 {
		o = script[min(b.n[by], len(script))-1]
	}
	b.mu.Unlock()
	b.begun.happen()
	if o.Outcome == "done" || o.Outcome == "fail" || o.Effect {
		if err := b.effect(ctx, tx, c); err != nil {
			return nil, err
		}
	}
	if o.Held { // even if its caller leaves
		<-b.awaited.c
	}
	select {
	case <-time.NewTimer(time.Duration(o.SlowMS) * time.Millisecond).C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch o.Outcome {
	case "refused":
		return nil, &participant.Refusal{Status: o.Status, Code: o.Code, Message: o.Message}
	case "not_applied":
		return nil, &participant.NotApplied{After: time.Duration(o.RetryAfterMS) * time.Millisecond}
	case "fail":
		if all%2 == 0 {
			return nil, errors.New("as scripted")
		}
		panic("as scripted")
	}
	switch {
	case o.Outcome == "later":
		return participant.Later, nil
	case o.Returns == "nothing":
		return nil, nil
	case o.Output != nil:
		return o.Output, nil
	}
	return map[string]int{"effect": all}, nil
}

func (b *business) effect(ctx context.Context, tx *sql.Tx, c *participant.Call) error {
	if tx == nil {
		c.AfterCommit(func() { b.mu.Lock(); defer b.mu.Unlock(); b.inMemory[c.Key]++ })
		return nil
	}
	_, err := tx.ExecContext(ctx, cmp.Or(b.insert, insertEffect), c.Key)
	return err
}

// handler is the participant of a vector over a store.
func (b *business) handler(t *testing.T, store participant.Store) *participant.Handler {
	t.Helper()
	cfg := participant.Config{Store: store, Execute: b.play, Compensate: b.play, Secrets: b.v.Secrets}
	if b.v.Participant["cancel"] != nil {
		cfg.Cancel = b.cancel
	}
	h, err := participant.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func vectors(t *testing.T) []conformance.Vector {
	t.Helper()
	all, err := conformance.Load()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func newBusiness(v conformance.Vector) *business {
	return &business{
		v: v, n: map[participant.Action]int{}, inMemory: map[string]int{}, begun: newEvent(), awaited: newEvent(),
	}
}

func TestVectorsInMemory(t *testing.T) {
	for _, v := range vectors(t) {
		if slices.ContainsFunc(v.Calls, func(c conformance.Call) bool { return c.Restart }) {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			r, b, store := newRunner(t, v), newBusiness(v), participant.Memory()
			h := b.handler(t, store)
			r.start = func() *httptest.Server { return r.serve(b, h) }
			r.finish = func(key string, o conformance.Outcome, sent bool) int { return b.finish(t, h, nil, key, o, sent) }
			r.effects = func() map[string]int { b.mu.Lock(); defer b.mu.Unlock(); return maps.Clone(b.inMemory) }
			r.run()
		})
	}
}

// Two processes that share a database also race against each other. One of them sends the store's
// statements with BEGIN and COMMIT.
func TestVectorsOnPostgreSQL(t *testing.T) {
	dsn := testdb.Empty(t)
	migrate(t, dsn)
	between(t, open(t, dsn), insertEffect, func(t *testing.T) [2]participant.Store {
		return [2]participant.Store{together(t, dsn), postgres(t, dsn)}
	})
}

// between plays the vectors against two processes, which are restarted when a vector says so. Their
// effects are in a table in db.
func between(t *testing.T, db *sql.DB, insert string, start func(t *testing.T) [2]participant.Store) {
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			r, b := newRunner(t, v), newBusiness(v)
			b.insert = insert
			var nodes [2]*participant.Handler
			r.start = func() *httptest.Server {
				stores := start(t)
				nodes = [2]*participant.Handler{b.handler(t, stores[0]), b.handler(t, stores[1])}
				return r.serve(b, &twoNodes{nodes: nodes})
			}
			r.finish = func(key string, o conformance.Outcome, sent bool) int {
				return b.finish(t, nodes[len(key)%2], db, key, o, sent)
			}
			r.effects = func() map[string]int { return effectsIn(t, db, r.ids) }
			r.run()
		})
	}
}
