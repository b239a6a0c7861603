package saga

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/strictjson"
)

// What operators do to a saga besides the verbs that Apply knows.
const (
	RestoreVerb Verb = "restore"
	EraseVerb   Verb = "erase"
	NoteVerb    Verb = "note"
)

// recordOf says which event records an operator's verb, and what its data then names as the
// verb, if several verbs have that type. Each of these events has data, unless a change that
// was not requested led to it. The indexes of migration 0390 have the same types.
var recordOf = map[Verb]struct {
	Type eventtype.Type
	Told []string
}{
	Cancel:             {eventtype.CancelAsked, nil},
	CompensateVerb:     {eventtype.CompensationAsked, nil},
	ResumeCompensation: {eventtype.ResumeAsked, nil},
	RetryVerb:          {eventtype.RetryAsked, nil},
	SkipStepVerb:       {eventtype.StepOrder, []string{string(SkipStep), string(UndoneStep)}},
	CompleteStepVerb:   {eventtype.StepOrder, []string{string(CompleteStep)}},
	FailStepVerb:       {eventtype.StepOrder, []string{string(FailStep)}},
	SuspendVerb:        {eventtype.Suspended, nil},
	ResumeVerb:         {eventtype.Unsuspended, nil},
	ExtendDeadline:     {eventtype.DeadlineChanged, nil},
	ForceComplete:      {eventtype.ForceAsked, []string{string(ForceComplete)}},
	ForceFail:          {eventtype.ForceAsked, []string{string(ForceFail)}},
	Acknowledge:        {eventtype.AttentionCleared, nil},
	RestoreVerb:        {eventtype.SagaRestored, nil},
	EraseVerb:          {eventtype.SagaErased, nil},
	NoteVerb:           {eventtype.NoteChanged, nil},
}

// RecordOf returns the type of the event that records an operator's verb, and what its data names
// as the verb; nil: anything. ok: there is such a verb.
func RecordOf(v Verb) (t eventtype.Type, told []string, ok bool) {
	r, ok := recordOf[v]
	return r.Type, r.Told, ok
}

// OperatorTypes are the types of the events that record what operators did, in order.
var OperatorTypes = func() []eventtype.Type {
	types := map[eventtype.Type]bool{}
	for _, r := range recordOf {
		types[r.Type] = true
	}
	return slices.Sorted(maps.Keys(types))
}()

// Operation is what an event records of an operator's action.
type Operation struct {
	Verb   Verb // "" if the data does not say
	Reason string
	Detail json.RawMessage // the rest, as canonical JSON; nil: none
}

// OperationOf reads an event of one of OperatorTypes: its data, its actor, and the name of its step
// or "".
func OperationOf(t eventtype.Type, data json.RawMessage, actor, step string) Operation {
	rest := map[string]any{}
	if len(data) > 0 && json.Unmarshal(data, &rest) != nil {
		return Operation{}
	}
	var o Operation
	told, _ := rest["verb"].(string)
	for verb, r := range recordOf {
		if r.Type == t && (r.Told == nil || slices.Contains(r.Told, told)) {
			o.Verb = verb
		}
	}
	o.Reason, _ = rest["reason"].(string)
	delete(rest, "verb")
	delete(rest, "reason")
	delete(rest, "erased_events") // may be long, and is only for the check of the trail
	if rest["by"] == actor {
		delete(rest, "by")
	}
	if step != "" {
		rest["step"] = step
	}
	if len(rest) > 0 {
		o.Detail, _ = strictjson.Encode(rest)
	}
	return o
}

// OfBulk records in the event of an operator's action that it is part of a bulk operation: the
// list of what operators did has the operation in its place.
func (e *AuditEvent) OfBulk(id uuid.UUID) {
	var w words
	if e.Data == nil || !slices.Contains(OperatorTypes, e.Type) || json.Unmarshal(e.Data, &w) != nil {
		return
	}
	w.Bulk = &id
	e.say(w)
}
