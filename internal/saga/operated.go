package saga

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/strictjson"
)

// The operator actions on sagas that are not events of Apply.
const (
	RestoreVerb Verb = "restore"
	EraseVerb   Verb = "erase"
	NoteVerb    Verb = "note"
)

// recordOf maps an operator's verb to the type of event that records it. If several verbs share a
// type, Told lists the verbs that the event's data may name. Each of these events has data, unless
// it results from a change that was not requested. The indexes of migration 0390 have the same
// types.
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

// RecordOf returns the type of the event that records an operator's verb, and the values with which
// its data names the verb; nil means any. ok is false if there is no such verb.
func RecordOf(v Verb) (t eventtype.Type, told []string, ok bool) {
	r, ok := recordOf[v]
	return r.Type, r.Told, ok
}

// OperatorTypes are the types of the events that record operators' actions, in order.
var OperatorTypes = func() []eventtype.Type {
	types := map[eventtype.Type]bool{}
	for _, r := range recordOf {
		types[r.Type] = true
	}
	return slices.Sorted(maps.Keys(types))
}()

// Operation is an operator's action as recorded in an event.
type Operation struct {
	Verb   Verb // "" if the data does not contain it
	Reason string
	Detail json.RawMessage // the remaining data, as canonical JSON; nil means none
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
	delete(rest, "erased_events") // may be long, and is only used to verify the trail
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

// OfBulk records in the event of an operator's action that it is part of a bulk operation. The list
// of operator actions then shows the bulk operation instead of the event.
func (e *AuditEvent) OfBulk(id uuid.UUID) {
	var w words
	if e.Data == nil || !slices.Contains(OperatorTypes, e.Type) || json.Unmarshal(e.Data, &w) != nil {
		return
	}
	w.Bulk = &id
	e.say(w)
}
