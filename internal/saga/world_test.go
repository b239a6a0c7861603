package saga

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/strictjson"
)

// world is everything around one saga, controlled by a test: the store, the node that drives it,
// the participants, the API and the clock. It makes no decisions about the saga; those are left to
// the rules.
type world struct {
	t   *rapid.T
	def *workflow.Definition
	now time.Time
	ids uint64

	// The store.
	head  Saga
	logs  []StepLog
	audit []AuditEvent

	// The node. run is nil when no node holds the saga.
	node int64
	run  *Instance
	held []decided // decisions that are made but not written yet (checkpoint: false)

	participants []participant
	calls        []Call // every call that was sent, in order

	crashesLeft, meddlingLeft, resumesLeft, decisionsLeft int
	stale                                                 int // commits refused because a flag came first
	witness
}

// newWorld creates a saga, owned by its node or unowned.
func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, def: workflows().Draw(t, "workflow"), now: noon, node: 1,
		crashesLeft:  rapid.IntRange(0, 4).Draw(t, "crashes"),
		meddlingLeft: rapid.IntRange(0, 5).Draw(t, "meddling"),
		resumesLeft:  rapid.IntRange(0, 3).Draw(t, "resumes"),

		decisionsLeft: rapid.IntRange(0, 4).Draw(t, "decisions"),
	}
	w.participants = make([]participant, len(w.def.Steps))
	w.witness = newWitness(len(w.def.Steps))
	owner := new(w.node)
	if w.chance("created unowned", 20) {
		owner = nil
	}
	spec := Spec{
		ID:      uuid.UUID{9},
		Payload: rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`{"order":1.50}`)}).Draw(t, "payload"),
	}
	w.head = New(spec, w.def, 1, owner, w.now, 0)
	w.audit = []AuditEvent{w.head.Begun("", "")}
	if owner != nil {
		w.run = new(NewInstance(w.head, w.def))
	}
	return w
}

// chance is true with the given probability in percent; shrinking makes it false.
func (w *world) chance(label string, percent int) bool {
	return rapid.IntRange(1, 100).Draw(w.t, label) > 100-percent
}

func (w *world) moment() Moment {
	w.now = w.now.Add(time.Millisecond)
	return Moment{
		Now: w.now, Jitter: 0.5, CompensationTimeout: time.Minute,
		NewID: func() uuid.UUID { w.ids++; return uuid.NewSHA1(uuid.Nil, fmt.Append(nil, w.ids)) },
	}
}

// crashes reports whether the node dies here, if crashes are still allowed. After a crash the
// store's row names a dead owner, and everything that the node had in memory is gone.
func (w *world) crashes(where string) bool {
	if w.run == nil || w.crashesLeft == 0 || !w.chance("crash "+where, 12) {
		return false
	}
	w.crashesLeft--
	w.node++ // the next incarnation
	w.run, w.held = nil, nil
	return true
}

// load does what every reader does: it reads the row and its logs, in any order.
func (w *world) load() Instance {
	logs := slices.Clone(w.logs)
	slices.Reverse(logs)
	return Rebuild(w.head, w.def, logs)
}

// decided is one of the decisions that a commit writes.
type decided struct {
	e      Event
	before Instance
	c      Change
}

// commit writes a change if its precondition holds, as a store does.
func (w *world) commit(e Event, before Instance, c Change) bool {
	return w.store([]decided{{e, before, c}})
}

// store writes several decisions in one change.
func (w *world) store(parts []decided) bool {
	c := parts[0].c
	for _, p := range parts[1:] {
		c = c.Then(p.c)
	}
	if c.Before != (Precondition{w.head.Version, w.head.LeaseEpoch}) {
		return false
	}
	after := c.After.Saga
	// The store sets its own columns on the database's clock; a change never sets them.
	after.TimeoutAt, after.CompensationTimeoutAt = w.head.TimeoutAt, w.head.CompensationTimeoutAt
	if c.StartsCompensation && after.CompensationTimeoutMS != nil {
		after.CompensationTimeoutAt = new(w.now.Add(time.Duration(*after.CompensationTimeoutMS) * time.Millisecond))
	}
	for _, l := range c.Logs {
		w.write(l)
	}
	w.audit = append(w.audit, c.Audit...)
	w.head = after
	c.After.Saga = after
	w.checkCommit(parts, &c)
	w.checkRequests()
	return true
}

// checkRequests checks that each request with parts can be rebuilt, whatever was decided since it
// was sent.
func (w *world) checkRequests() {
	w.t.Helper()
	logs := slices.Clone(w.logs)
	for i := range logs {
		if logs[i].Parts != nil {
			logs[i].Request = nil
		}
	}
	MakeRequests(&w.head, logs)
	for i, l := range logs {
		if l.Parts == nil {
			continue
		}
		sent, err := strictjson.Canonical(nil, w.logs[i].Request, strictjson.Stored)
		if err != nil || !bytes.Equal(sent, l.Request) {
			w.t.Fatalf("%s %d of step %d, %v\nsent %s\nmade %s", l.Action, l.Attempt, l.StepIndex, err, sent, l.Request)
		}
	}
}

// write stores a log, either as a new row or by completing a RUNNING one.
func (w *world) write(l StepLog) {
	same := func(o StepLog) bool {
		return o.StepIndex == l.StepIndex && o.Action == l.Action && o.Attempt == l.Attempt
	}
	i := slices.IndexFunc(w.logs, same)
	switch {
	case !l.Completes && i >= 0:
		w.t.Fatalf("two rows for one attempt: %+v and %+v", w.logs[i], l)
	case l.Completes && (i < 0 || w.logs[i].Status != LogRunning):
		w.t.Fatalf("completes a row that is not there: %+v", l)
	case l.Completes:
		l.ID, l.Completes = w.logs[i].ID, false
		w.logs[i] = l
	default:
		w.logs = append(w.logs, l)
	}
}

// claim gives the saga to the living node, as Ownership.Claim does.
func (w *world) claim() {
	s := w.head
	if s.LeaseOwner == nil {
		if s.NextRunAt != nil && s.NextRunAt.After(w.now) {
			w.now = *s.NextRunAt
		}
		s.Attempt = max(s.Attempt, 1)
		s.NextRunAt = nil
	} else { // its owner is dead, and may have sent the call that the row announces
		w.takenOver(&s)
		s.Attempt++
		s.Uncertain = true
		for i := range w.logs {
			if l := &w.logs[i]; l.Status == LogRunning {
				l.Status, l.CompletedAt = LogFailed, new(w.now)
				w.closed[work{l.StepIndex, l.Action}]++
			}
		}
	}
	if s.StartedAt == nil {
		s.StartedAt = new(w.now)
	}
	s.Version++
	s.LeaseEpoch++
	s.LeaseOwner = new(w.node)
	w.head = s
	w.changes++
	w.run = new(w.load())
	if why := inconsistent(w.run); why != "" {
		w.t.Fatalf("claimed a saga that is %s: %+v", why, s)
	}
}

// workflows draws definitions of one to eight steps.
func workflows() *rapid.Generator[*workflow.Definition] {
	return rapid.Custom(func(t *rapid.T) *workflow.Definition {
		d := definition(rapid.StringMatching(`[un]{1,8}`).Draw(t, "steps"))
		d.Retry, d.CompensationRetry = policies().Draw(t, "retry"), policies().Draw(t, "compensation retry")
		for i := range d.Steps {
			if rapid.IntRange(0, 3).Draw(t, "own policies") == 3 {
				d.Steps[i].Retry, d.Steps[i].CompensationRetry = policies().Draw(t, "retry"),
					policies().Draw(t, "compensation retry")
			}
		}
		reactions(t, d)
		if rapid.Bool().Draw(t, "checkpoints") {
			for i := range d.Steps {
				if rapid.IntRange(0, 3).Draw(t, "checkpoint") > 0 {
					d.Steps[i].Checkpoint = new(false)
				}
			}
		}
		return d
	})
}

// reactions gives some definitions a pivot, and gives some of their steps another reaction to
// failure.
func reactions(t *rapid.T, d *workflow.Definition) {
	if rapid.IntRange(0, 2).Draw(t, "words") > 0 {
		return
	}
	pivot := rapid.IntRange(-1, len(d.Steps)-1).Draw(t, "pivot")
	d.OnFailure = rapid.SampledFrom([]workflow.OnFailure{"", workflow.OnFailureSuspend}).Draw(t, "on_failure")
	for i := range d.Steps {
		s := &d.Steps[i]
		s.Pivot = i == pivot
		if pivot >= 0 && i > pivot {
			s.Compensation = workflow.Compensation{}
			continue
		}
		s.OnFailure = rapid.SampledFrom([]workflow.OnFailure{"", workflow.OnFailureCompensate, workflow.OnFailureSuspend}).
			Draw(t, "on_failure")
	}
}
