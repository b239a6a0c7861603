package saga

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/google/uuid"

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
	Type AuditType
	Told []string
}{
	Cancel:             {CancelAsked, nil},
	CompensateVerb:     {CompensationAsked, nil},
	ResumeCompensation: {ResumeAsked, nil},
	RetryVerb:          {RetryAsked, nil},
	SkipStepVerb:       {StepOrder, []string{string(SkipStep), string(UndoneStep)}},
	CompleteStepVerb:   {StepOrder, []string{string(CompleteStep)}},
	FailStepVerb:       {StepOrder, []string{string(FailStep)}},
	SuspendVerb:        {Suspended, nil},
	ResumeVerb:         {Unsuspended, nil},
	ExtendDeadline:     {DeadlineChanged, nil},
	ForceComplete:      {ForceAsked, []string{string(ForceComplete)}},
	ForceFail:          {ForceAsked, []string{string(ForceFail)}},
	Acknowledge:        {AttentionCleared, nil},
	RestoreVerb:        {SagaRestored, nil},
	EraseVerb:          {SagaErased, nil},
	NoteVerb:           {NoteChanged, nil},
}

// RecordOf returns the type of the event that records an operator's verb, and what its data names
// as the verb; nil: anything. ok: there is such a verb.
func RecordOf(v Verb) (t AuditType, told []string, ok bool) {
	r, ok := recordOf[v]
	return r.Type, r.Told, ok
}

// OperatorTypes are the types of the events that record what operators did, in order.
var OperatorTypes = func() []AuditType {
	types := map[AuditType]bool{}
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
func OperationOf(t AuditType, data json.RawMessage, actor, step string) Operation {
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
