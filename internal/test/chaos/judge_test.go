package chaos

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"reflect"
	"syscall"
	"time"

	"github.com/skald-saga/skald/examples/order/ledger"
	"github.com/skald-saga/skald/internal/saga"
)

// clumsy is how long a call may wait at a participant on a busy machine before the participant
// records it.
const clumsy = 2 * time.Second

// verdict is the result of a run.
type verdict struct {
	sagas map[string]*record
	ends  map[saga.State]int
	// calls is the total number of received calls. duplicates are the calls beyond the first of a
	// step and action; stragglers are the calls that a stopped node had in progress.
	calls, duplicates, stragglers int
	// takeovers are changes of owner beyond the first. lost are the calls that were recorded as
	// running when their owner died.
	takeovers, lost int
	unknown         int // creates whose outcome is unknown to all clients
	outsideDirty    int // remaining effects of sagas that report them
	letters         int // dead letters of compensations
}

// judge compares all records after the run has become idle.
func (w *world) judge(ctx context.Context) (*verdict, error) {
	if !pause(ctx, pauses) { // until the last call that a participant delayed is in the ledger
		return nil, ctx.Err()
	}
	prints, err := w.fingerprints(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := w.shop.entries()
	if err != nil {
		return nil, err
	}
	if err := w.lastRestart(ctx, prints, len(entries)); err != nil {
		return nil, err
	}
	v := &verdict{ends: map[saga.State]int{}, calls: len(entries)}
	if v.sagas, err = w.records(ctx); err != nil {
		return nil, err
	}
	entries, v.stragglers = putBack(entries, w.log.stops)
	ends := map[string]ledger.SagaEnd{}
	for id, r := range v.sagas {
		ends[id] = r.end()
	}
	w.addAll(ledger.Checker{Reorder: clumsy, Calm: w.plan.calm}.Check(entries, ends))
	v.gather(entries)
	if err := w.checkHistory(ctx, v); err != nil {
		return nil, err
	}
	for id, r := range v.sagas {
		checkRecord(r, func(invariant, step, format string, args ...any) { w.add(invariant, id, step, format, args...) })
		if err := w.checkThroughAPI(ctx, r, v); err != nil {
			return nil, err
		}
	}
	if err := w.checkTrail(ctx, v); err != nil {
		return nil, err
	}
	if err := w.checkUndoLetters(ctx, v); err != nil {
		return nil, err
	}
	for _, n := range w.nodes {
		for _, line := range n.log.complaints() {
			w.add("O4", "", "", "%s said: %s", n.name, line)
		}
	}
	return v, nil
}

// lastRestart restarts all nodes once more at the end. Ended sagas must stay identical to the byte,
// and no participant may be called again (I5, I9).
func (w *world) lastRestart(ctx context.Context, prints map[string]string, calls int) error {
	began := time.Now()
	for _, n := range w.nodes {
		n.end(syscall.SIGKILL)
		if err := n.start(); err != nil {
			return err
		}
	}
	if err := w.allReady(ctx); err != nil {
		return err
	}
	pause(ctx, time.Second) // long enough to look for work twice
	after, err := w.fingerprints(ctx)
	if err != nil {
		return err
	}
	for id, print := range prints {
		if after[id] != print {
			w.add("I5", id, "", "its row or its step logs changed after the end")
		}
	}
	entries, err := w.shop.entries()
	if err != nil {
		return err
	}
	for _, e := range entries[calls:] {
		if e.Time.Before(began) {
			continue // it had already arrived, and its participant was slower than its longest delay
		}
		w.add("I9", e.Saga, e.Step, "%s attempt %d was received after everything had ended", e.Action, e.Attempt)
	}
	return nil
}

// gather assigns the calls to their sagas and counts them.
func (v *verdict) gather(entries []ledger.Entry) {
	seen := map[callID]bool{}
	for _, e := range entries {
		if r := v.sagas[e.Saga]; r != nil {
			r.calls = append(r.calls, e)
		}
		if id := (callID{e.Saga, e.Step, e.Action}); seen[id] {
			v.duplicates++
		} else {
			seen[id] = true
		}
	}
	for _, r := range v.sagas {
		v.ends[r.state]++
		v.takeovers += max(0, int(r.epoch)-1)
		for _, l := range r.logs {
			if l.outcome == "owner_lost" {
				v.lost++
			}
		}
	}
}

// checkHistory compares what the clients know with the database (I0, I11).
func (w *world) checkHistory(ctx context.Context, v *verdict) error {
	byMarker := map[string][]*record{}
	for _, r := range v.sagas {
		byMarker[r.marker] = append(byMarker[r.marker], r)
	}
	keys, err := w.createKeys(ctx)
	if err != nil {
		return err
	}
	for _, o := range w.orders {
		stored := byMarker[o.marker]
		delete(byMarker, o.marker)
		if len(stored) > 1 {
			w.add("I0", stored[0].id, "", "%s is there %d times", o.marker, len(stored))
		}
		for _, r := range stored {
			r.order = o
			if !sameJSON(r.payload, o.payload) {
				w.add("I0", r.id, "", "payload %s was stored as %s", o.payload, r.payload)
			}
			if o.key != "" && keys[o.key] != r.id {
				w.add("I11", r.id, "", "its key stands for %q", keys[o.key])
			}
		}
		switch {
		case len(o.accepted) > 0 && (len(stored) == 0 || stored[0].id != o.id()):
			w.add("I0", o.id(), "", "%s was accepted and is not in the database", o.marker)
		case !o.agreed():
			w.add("I11", o.id(), "", "%s was accepted as %v", o.marker, o.accepted)
		case len(o.accepted) == 0 && o.unknown:
			v.unknown++
		case len(o.accepted) == 0 && len(stored) > 0:
			w.add("I0", stored[0].id, "", "%s was never accepted and is in the database", o.marker)
		}
	}
	for marker, r := range byMarker {
		w.add("I0", r[0].id, "", "nobody ordered %q", marker)
	}
	return nil
}

// createKeys maps each idempotency key of a create request to its saga.
func (w *world) createKeys(ctx context.Context) (map[string]string, error) {
	rows, err := w.db.sql().QueryContext(ctx, `SELECT key, saga_id FROM saga.idempotency_keys WHERE key LIKE 'create-%'`)
	if err != nil {
		return nil, fmt.Errorf("read idempotency keys: %w", err)
	}
	defer rows.Close()
	keys := map[string]string{}
	for rows.Next() {
		var key, id string
		if err := rows.Scan(&key, &id); err != nil {
			return nil, fmt.Errorf("read idempotency keys: %w", err)
		}
		if keys[key] != "" {
			w.add("I11", id, "", "key %q stands for %s too", key, keys[key])
		}
		keys[key] = id
	}
	return keys, rows.Err()
}

// checkThroughAPI reads the saga from a node: the API must agree with the database and list every
// effect that remains after a dirty end (I2).
func (w *world) checkThroughAPI(ctx context.Context, r *record, v *verdict) error {
	reply, err := w.ask(ctx, "/api/v1/sagas/"+r.id)
	if err != nil {
		return err
	}
	var shown struct {
		Status  saga.Status
		State   string
		Version int64
		Payload json.RawMessage
	}
	if err := json.Unmarshal(reply.body, &shown); err != nil || reply.status != http.StatusOK {
		w.add("I0", r.id, "", "asked for, a node answers %d: %s", reply.status, reply.body)
		return nil
	}
	if shown.State != r.state.String() || shown.Status != r.state.Status() || shown.Version != r.version ||
		!sameJSON(shown.Payload, r.payload) {
		w.add(
			"I0",
			r.id,
			"",
			"a node shows %s/%s at version %d, the database has %s at %d",
			shown.Status,
			shown.State,
			shown.Version,
			r.state,
			r.version,
		)
	}
	if r.state != saga.Failed {
		return nil
	}
	return w.checkDirty(ctx, r, v)
}

var errUnavailable = errors.New("503")

// ask reads from any node. All nodes are up but may be busy.
func (w *world) ask(ctx context.Context, path string) (reply, error) {
	for try := 0; ; try++ {
		r := w.request(ctx, w.nodes[(try+int(path[len(path)-1]))%len(w.nodes)], http.MethodGet, path, "", nil)
		if r.err == nil && r.status != http.StatusServiceUnavailable {
			return r, nil
		}
		if try == 10 {
			return r, fmt.Errorf("GET %s: no answer in %d tries: %w", path, try, cmp.Or(r.err, errUnavailable))
		}
		pause(ctx, 100*time.Millisecond)
	}
}

func (w *world) checkDirty(ctx context.Context, r *record, v *verdict) error {
	reply, err := w.ask(ctx, "/api/v1/sagas/"+r.id+"/steps")
	if err != nil {
		return err
	}
	var shown struct {
		Steps []struct {
			Name  string
			State struct {
				Name string `json:"state_name"`
			} `json:"compensation_state"`
		}
	}
	if err := json.Unmarshal(reply.body, &shown); err != nil {
		return fmt.Errorf("read a saga's steps: %w", err)
	}
	open := map[string]string{}
	for _, s := range shown.Steps {
		open[s.Name] = s.State.Name
	}
	for _, step := range r.flow.steps {
		if applied, undone := r.effect(step); applied && !undone && r.flow.hasUndo(step) {
			v.outsideDirty++
			if s := open[step]; s != "failed" && s != "pending" {
				w.add("I2", r.id, step, "is still applied after a dirty end, and its compensation is shown as %q", s)
			}
		}
	}
	return nil
}

// sameJSON compares JSON by value, and numbers by their exact value.
func sameJSON(a, b []byte) bool {
	return reflect.DeepEqual(value(a), value(b))
}

func value(b []byte) any {
	var v any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return err
	}
	return exact(v)
}

// exact replaces numbers with fractions in lowest terms.
func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		if f, ok := new(big.Rat).SetString(v.String()); ok {
			return f.RatString()
		}
	case map[string]any:
		for k := range v {
			v[k] = exact(v[k])
		}
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	}
	return v
}
