package saga

import (
	"errors"
	"fmt"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// A bad restore or a lost key can leave a saga whose definition or content cannot be read. It is
// shown without the missing part and is marked. It accepts the verbs that neither need that part
// nor overwrite it. No call is made for such a saga until it can be read again.

// Fits returns nil if def can be the definition to which a saga with these logs is pinned: it has
// as many steps as the saga, and their names match those in the logs. Otherwise the saga must not
// be driven, because the names are part of the idempotency keys. The error is
// workflow.ErrUnreadable.
func Fits(s *Saga, def *workflow.Definition, logs []StepLog) error {
	if len(def.Steps) != s.TotalSteps {
		return fmt.Errorf("%w: it has %d steps, but the saga has %d",
			workflow.ErrUnreadable, len(def.Steps), s.TotalSteps)
	}
	if s.CurrentStep < 0 || s.CurrentStep > len(def.Steps) ||
		s.CurrentStep == len(def.Steps) && s.State != Completed {
		return fmt.Errorf("%w: it has %d steps, but the saga is at step %d",
			workflow.ErrUnreadable, len(def.Steps), s.CurrentStep)
	}
	for i := range logs {
		l := &logs[i]
		if l.StepIndex >= len(def.Steps) || def.Steps[l.StepIndex].Name != l.StepName {
			return fmt.Errorf("%w: its step %d is not %q, the name in the saga's step logs",
				workflow.ErrUnreadable, l.StepIndex, l.StepName)
		}
	}
	return nil
}

// Restored returns the instance of a saga. err is the error from reading its definition, or nil. If
// the definition is damaged, missing, or not the saga's, the instance has none (Undefined). Any
// other err does not concern the saga and is returned.
func Restored(s Saga, def *workflow.Definition, err error, logs []StepLog) (Instance, error) {
	if err == nil {
		err = Fits(&s, def, logs)
	}
	switch {
	case err == nil:
		return Rebuild(s, def, logs), nil
	case errors.Is(err, workflow.ErrUnreadable), fault.KindOf(err) == fault.NotFound:
		r := Rebuild(s, standIn(&s, logs), logs)
		r.undefined = true
		return r, nil
	}
	return Instance{}, err
}

// standIn returns a definition with only the names of the steps in the saga's logs.
func standIn(s *Saga, logs []StepLog) *workflow.Definition {
	n := s.TotalSteps
	for i := range logs {
		n = max(n, logs[i].StepIndex+1)
	}
	def := &workflow.Definition{Name: s.WorkflowName, Steps: make([]workflow.Step, max(n, s.CurrentStep+1))}
	for i := range logs {
		def.Steps[logs[i].StepIndex].Name = logs[i].StepName
	}
	return def
}

// Undefined reports whether the saga's definition could not be read. Def then has only the names of
// steps from its logs.
func (r *Instance) Undefined() bool { return r.undefined }

// Unreadable returns the fault of an event that requires unreadable parts of the saga, including
// the remedy, or nil if everything can be read.
func (r *Instance) Unreadable() *fault.Error {
	switch {
	case r.undefined:
		return fault.New(fault.Conflict, CodeDefinitionUnreadable,
			"version %d of workflow %q, to which the saga is pinned, is damaged or missing: register the same "+
				"definition again, or restore its row from a backup; until then, the saga makes no calls",
			r.WorkflowVersion, r.WorkflowName).Allowing(r.AllowedActions())
	case r.ContentUnreadable:
		return fault.New(fault.Conflict, CodeContentUnreadable,
			"the saga's encrypted content cannot be decrypted: configure the key that sealed it, or restore "+
				"the saga from a backup; until then, the saga makes no calls").Allowing(r.AllowedActions())
	}
	return nil
}

// withheld returns the fault of an event that r would accept if everything could be read, and nil
// otherwise. Loops never apply an event to a saga if they do not know which call to make.
func (r *Instance) withheld(e Event) *fault.Error {
	f := r.Unreadable()
	if f == nil || r.Erased() {
		return nil
	}
	switch e.(type) {
	case nil:
		return f
	case DeadlinePassed, Neglected: // these only set a flag
		if r.lacks(0) {
			return f
		}
		return nil
	}
	verb := e.event()
	if verb == "" {
		return f
	}
	for i := range Verbs {
		if v := &Verbs[i]; v.Verb == verb && r.lacks(v.needs) && v.allowed(r) {
			return f
		}
	}
	return nil
}
