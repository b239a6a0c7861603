// Package workflow is the rulebook of workflow definitions: what a definition
// may contain, in which order its steps run, and which policy applies to a call.
//
// A definition is immutable once registered; a saga is pinned to the version
// it was created with (traps X15). Pure: values in, values out.
//
// Files, each on top of those before it: problems, answer, reader, name, call, compiled,
// definition, parse, output, plan, checkpoint, failure, job, later, order, request, secrets, store, validate, yaml.
package workflow

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/skald-saga/skald/internal/retry"
)

// Definition is one version of a workflow, normalised: steps are in the order
// in which they run. JSON names are the API's (DESIGN.md section 5).
type Definition struct {
	Name                  string        `json:"name"`
	Description           string        `json:"description,omitempty"`
	TimeoutMS             int64         `json:"timeout_ms,omitempty"`              // 0: the server's default
	CompensationTimeoutMS int64         `json:"compensation_timeout_ms,omitempty"` // 0: the server's default
	Retry                 *retry.Policy `json:"retry,omitempty"`
	CompensationRetry     *retry.Policy `json:"compensation_retry,omitempty"`
	OnFailure             OnFailure     `json:"on_failure,omitempty"` // of steps that do not say
	OnCompensationFailure OnUndoFailure `json:"on_compensation_failure,omitempty"`
	Retention             *Retention    `json:"retention,omitempty"`
	Steps                 []Step        `json:"steps"`
	// Output is the template of a completed saga's result; nil: the outputs of
	// the steps by name. Canonical JSON.
	Output json.RawMessage `json:"output,omitempty"`
	// Expressions is the language of what stands in `${…}`. "": there are only references, in
	// the output and in arguments of jobs, and everything else is text, as before there were
	// expressions.
	Expressions string `json:"expressions,omitempty"`
	// PayloadSchema is what payloads of new sagas must fit; nil: anything. Canonical JSON.
	PayloadSchema json.RawMessage `json:"payload_schema,omitempty"`
	Plan          *Plan           `json:"-"` // what Expressions and schemas need, else nil

	// Written is where the client wrote each step; nil: where it runs, or the definition is a stored one.
	Written []int `json:"-"`
}

// Position returns where the client wrote a step, for pointers into what it sent: depends_on may let
// the steps run in another order.
func (d *Definition) Position(step int) int {
	if d.Written == nil {
		return step
	}
	return d.Written[step]
}

func (d *Definition) newPlan() *Plan {
	if d.Expressions == "" && d.PayloadSchema == nil &&
		!slices.ContainsFunc(d.Steps, func(s Step) bool { return s.OutputSchema != nil }) {
		return nil
	}
	return &Plan{}
}

// ExpressionsCEL is the language of expressions.
const ExpressionsCEL = "cel"

// UnmarshalJSON reads a stored definition; members that it does not know are an error. Client
// input goes through Parse.
func (d *Definition) UnmarshalJSON(b []byte) error {
	type stored Definition
	if err := strictly(b, (*stored)(d)); err != nil {
		return err
	}
	d.Plan = d.newPlan()
	return nil
}

// Retention is how long ended sagas of a workflow stay live before they are
// archived, in milliseconds. 0: the server's default; Forever: they stay. That
// of the latest version holds for all sagas of the name, also for earlier ones.
type Retention struct {
	CompletedMS int64 `json:"completed_ms,omitempty"` // of those that completed
	FailedMS    int64 `json:"failed_ms,omitempty"`    // of those that ended in any other way
}

// OnFailure is what a saga does when a step of it has failed.
type OnFailure string

// What a saga does then. The zero value means "as the workflow says", and there OnFailureCompensate.
const (
	OnFailureCompensate OnFailure = "compensate"
	OnFailureSuspend    OnFailure = "suspend" // stop at the step for a person
)

// OnUndoFailure is what a saga does when a compensation has given up.
type OnUndoFailure string

// What a saga does then. The zero value means "as the workflow says", and there OnUndoFailureStop.
const (
	OnUndoFailureStop OnUndoFailure = "stop"
	OnUndoFailureGoOn OnUndoFailure = "go_on" // compensate the steps before it
)

// Forever is the retention of sagas that are never archived.
const Forever = -1

// Step is one step: its action and its compensation.
type Step struct {
	Name   string  `json:"name"`
	Action Call    `json:"action"`
	Answer *Answer `json:"answer,omitempty"` // to the action
	When   string  `json:"when,omitempty"`   // an expression; false: the step is skipped
	// OutputSchema is what the step's output must fit; nil: anything. Canonical JSON.
	OutputSchema      json.RawMessage `json:"output_schema,omitempty"`
	Compensation      Compensation    `json:"compensation"`
	DependsOn         []string        `json:"depends_on,omitempty"` // steps that must be done before
	TimeoutMS         int64           `json:"timeout_ms,omitempty"` // one call; 0: the server's default
	Retry             *retry.Policy   `json:"retry,omitempty"`
	CompensationRetry *retry.Policy   `json:"compensation_retry,omitempty"`
	OnFailure         OnFailure       `json:"on_failure,omitempty"` // "": the workflow's
	// OnCompensationFailure is about the step's compensation; "": the workflow's.
	OnCompensationFailure OnUndoFailure `json:"on_compensation_failure,omitempty"`
	// Pivot: once this step is done, the saga is never compensated (decision 0147).
	Pivot bool `json:"pivot,omitempty"`
	// Checkpoint is false if the next step may be called before this one's outcome is on disk
	// (Definition.Ahead); nil: true, which is never stored.
	Checkpoint *bool `json:"checkpoint,omitempty"`
	// Metadata is what people and reports want to know of the step; Skald makes nothing
	// of it. A canonical JSON object; nil: none.
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// Compensation undoes a step. The zero value means "none": the definition
// said in so many words that there is nothing to undo.
type Compensation struct {
	Call
}

// None reports whether the step declared `compensation: none`.
func (c Compensation) None() bool { return c.kind() == "" }

// MarshalJSON writes "none" for no compensation, so that a stored definition
// reads as it was registered.
func (c Compensation) MarshalJSON() ([]byte, error) {
	if c.None() {
		return []byte(`"none"`), nil
	}
	return json.Marshal(c.Call)
}

// UnmarshalJSON reads what MarshalJSON wrote. Client input goes through Parse.
func (c *Compensation) UnmarshalJSON(b []byte) error {
	if string(b) == `"none"` {
		*c = Compensation{}
		return nil
	}
	return strictly(b, &c.Call)
}

// Stored reads a definition as it is stored; nil: it is damaged, or says something that this program does not know,
// because a newer one has registered it. Following the rest of it would be another workflow.
func Stored(b []byte) *Definition {
	d := &Definition{}
	if strictly(b, d) != nil || len(d.Steps) == 0 {
		return nil
	}
	return d
}

func strictly(b []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

// ActionRetry returns the policy of step i's action: the step's own, filled
// from the saga's (nil: it has none), from the workflow's, and from retry.Default.
func (d *Definition) ActionRetry(i int, saga *retry.Policy) retry.Policy {
	if saga == nil {
		return layered(d.Steps[i].Retry, d.Retry, retry.Default)
	}
	whole := *saga
	if d.Retry != nil {
		whole = whole.Or(*d.Retry)
	}
	return layered(d.Steps[i].Retry, &whole, retry.Default)
}

// CompensationPolicy returns the policy of step i's compensation, filled from
// retry.Patient: an undo that gives up needs a person.
func (d *Definition) CompensationPolicy(i int) retry.Policy {
	return layered(d.Steps[i].CompensationRetry, d.CompensationRetry, retry.Patient)
}

func layered(step, whole *retry.Policy, base retry.Policy) retry.Policy {
	var p retry.Policy
	if step != nil {
		p = *step
	}
	if whole != nil {
		p = p.Or(*whole)
	}
	return p.Or(base)
}

// HasJobs reports whether a step or a compensation is a job run.
func (d *Definition) HasJobs() bool {
	return slices.ContainsFunc(d.Steps, func(s Step) bool { return s.Action.Job != "" || s.Compensation.Job != "" })
}

// Participants returns the names of the participants that its calls name, each once, in order.
func (d *Definition) Participants() (names []string) {
	for i := range d.Steps {
		for _, c := range []*Call{&d.Steps[i].Action, &d.Steps[i].Compensation.Call} {
			if name := c.Names(); name != "" {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// SuspendsOn reports whether the failure of step i suspends the saga.
func (d *Definition) SuspendsOn(i int) bool {
	if own := d.Steps[i].OnFailure; own != "" {
		return own == OnFailureSuspend
	}
	return d.OnFailure == OnFailureSuspend
}

// GoesOn reports whether the steps before step i are compensated although its compensation gave up.
func (d *Definition) GoesOn(i int) bool {
	if own := d.Steps[i].OnCompensationFailure; own != "" {
		return own == OnUndoFailureGoOn
	}
	return d.OnCompensationFailure == OnUndoFailureGoOn
}

// Pivot returns the index of the step after which the saga is never compensated, -1: none.
func (d *Definition) Pivot() int {
	return slices.IndexFunc(d.Steps, func(s Step) bool { return s.Pivot })
}

// StepTimeout returns how long one call of step i may take, def when it names none.
func (d *Definition) StepTimeout(i int, def time.Duration) time.Duration {
	if ms := d.Steps[i].TimeoutMS; ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return def
}

// StepNames returns the names in running order.
func (d *Definition) StepNames() []string {
	names := make([]string, len(d.Steps))
	for i := range d.Steps {
		names[i] = d.Steps[i].Name
	}
	return names
}
