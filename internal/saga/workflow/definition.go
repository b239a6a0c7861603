// Package workflow contains the rules of workflow definitions: what a definition may contain, in
// which order its steps run, and which policy applies to a call.
//
// A definition is immutable once registered; a saga is pinned to the version it was created with
// (traps X15). The package is pure: values in, values out.
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

// Definition is one version of a workflow in normalized form: the steps are in the order in which
// they run. The JSON names are those of the API (DESIGN.md section 5).
type Definition struct {
	Name                  string        `json:"name"`
	Description           string        `json:"description,omitempty"`
	TimeoutMS             int64         `json:"timeout_ms,omitempty"`              // 0 means the server's default
	CompensationTimeoutMS int64         `json:"compensation_timeout_ms,omitempty"` // 0 means the server's default
	Retry                 *retry.Policy `json:"retry,omitempty"`
	CompensationRetry     *retry.Policy `json:"compensation_retry,omitempty"`
	OnFailure             OnFailure     `json:"on_failure,omitempty"` // for steps that do not set it
	OnCompensationFailure OnUndoFailure `json:"on_compensation_failure,omitempty"`
	Retention             *Retention    `json:"retention,omitempty"`
	Steps                 []Step        `json:"steps"`
	// Output is the template of a completed saga's result. nil means the outputs of the steps by
	// name. Canonical JSON.
	Output json.RawMessage `json:"output,omitempty"`
	// Expressions is the language of the expressions in `${…}`. "" means that there are only
	// references, in the output and in the arguments of jobs, and that everything else is text, as
	// before expressions were introduced.
	Expressions string `json:"expressions,omitempty"`
	// PayloadSchema is the schema for the payloads of new sagas. nil allows anything. Canonical
	// JSON.
	PayloadSchema json.RawMessage `json:"payload_schema,omitempty"`
	Plan          *Plan           `json:"-"` // compiled expressions and schemas, or nil if there are none

	// Written holds the position at which the client wrote each step. nil means that the steps run
	// in the order in which they were written, or that the definition was read from the store.
	Written []int `json:"-"`
}

// Position returns the position at which the client wrote a step, for pointers into what the client
// sent: depends_on may make the steps run in another order.
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

// UnmarshalJSON reads a stored definition. Unknown members are an error. Client input goes through
// Parse.
func (d *Definition) UnmarshalJSON(b []byte) error {
	type stored Definition
	if err := strictly(b, (*stored)(d)); err != nil {
		return err
	}
	d.Plan = d.newPlan()
	return nil
}

// Retention is how long a workflow's ended sagas stay live before they are archived, in
// milliseconds. 0 means the server's default; Forever means that they are never archived. The
// retention of the latest version applies to all sagas of the name, including those of earlier
// versions.
type Retention struct {
	CompletedMS int64 `json:"completed_ms,omitempty"` // for completed sagas
	FailedMS    int64 `json:"failed_ms,omitempty"`    // for sagas that ended in any other way
}

// OnFailure says what a saga does when one of its steps has failed.
type OnFailure string

// The values of OnFailure. The zero value means "as the workflow says"; for a workflow it means
// OnFailureCompensate.
const (
	OnFailureCompensate OnFailure = "compensate"
	OnFailureSuspend    OnFailure = "suspend" // stop at the step and wait for an operator
)

// OnUndoFailure says what a saga does when a compensation has failed permanently.
type OnUndoFailure string

// The values of OnUndoFailure. The zero value means "as the workflow says"; for a workflow it means
// OnUndoFailureStop.
const (
	OnUndoFailureStop OnUndoFailure = "stop"
	OnUndoFailureGoOn OnUndoFailure = "go_on" // continue and compensate the earlier steps
)

// Forever is the retention of sagas that are never archived.
const Forever = -1

// Step is one step, with its action and its compensation.
type Step struct {
	Name   string  `json:"name"`
	Action Call    `json:"action"`
	Answer *Answer `json:"answer,omitempty"` // for the action
	When   string  `json:"when,omitempty"`   // an expression; if it is false, the step is skipped
	// OutputSchema is the schema for the step's output. nil allows anything. Canonical JSON.
	OutputSchema      json.RawMessage `json:"output_schema,omitempty"`
	Compensation      Compensation    `json:"compensation"`
	DependsOn         []string        `json:"depends_on,omitempty"` // steps that must be done before this one
	TimeoutMS         int64           `json:"timeout_ms,omitempty"` // for one call; 0 means the server's default
	Retry             *retry.Policy   `json:"retry,omitempty"`
	CompensationRetry *retry.Policy   `json:"compensation_retry,omitempty"`
	OnFailure         OnFailure       `json:"on_failure,omitempty"` // "" means as the workflow says
	// OnCompensationFailure applies to the step's compensation. "" means as the workflow says.
	OnCompensationFailure OnUndoFailure `json:"on_compensation_failure,omitempty"`
	// Pivot means that the saga is never compensated once this step is done (decision 0147).
	Pivot bool `json:"pivot,omitempty"`
	// Checkpoint is false if the next step may be called before this step's outcome is on disk
	// (Definition.Ahead). nil means true; true is never stored.
	Checkpoint *bool `json:"checkpoint,omitempty"`
	// Metadata is information about the step for people and reports, which Skald does not
	// interpret. A canonical JSON object; nil means that there is none.
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// Compensation undoes a step. The zero value means "none": the definition states explicitly that
// there is nothing to undo.
type Compensation struct {
	Call
}

// None reports whether the step declared `compensation: none`.
func (c Compensation) None() bool { return c.kind() == "" }

// MarshalJSON writes "none" if there is no compensation, so that a stored definition reads as it
// was registered.
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

// Stored decodes a stored definition. It returns nil if the definition is damaged, or if it
// contains something unknown because a newer program has registered it: executing only the known
// part would execute a different workflow.
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

// ActionRetry returns the retry policy of step i's action: the step's own, with missing values
// taken from the saga's (nil if it has none), then from the workflow's, and then from
// retry.Default.
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

// CompensationPolicy returns the retry policy of step i's compensation, with missing values taken
// from retry.Patient, because a compensation that gives up needs an operator.
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

// Participants returns the names of the participants that the definition's calls name, in order and
// without duplicates.
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

// GoesOn reports whether the steps before step i are still compensated after the compensation of
// step i failed permanently.
func (d *Definition) GoesOn(i int) bool {
	if own := d.Steps[i].OnCompensationFailure; own != "" {
		return own == OnUndoFailureGoOn
	}
	return d.OnCompensationFailure == OnUndoFailureGoOn
}

// Pivot returns the index of the step after which the saga is never compensated, or -1 if there is
// none.
func (d *Definition) Pivot() int {
	return slices.IndexFunc(d.Steps, func(s Step) bool { return s.Pivot })
}

// StepTimeout returns how long one call of step i may take; def applies if the step does not say.
func (d *Definition) StepTimeout(i int, def time.Duration) time.Duration {
	if ms := d.Steps[i].TimeoutMS; ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return def
}

// StepNames returns the names in execution order.
func (d *Definition) StepNames() []string {
	names := make([]string, len(d.Steps))
	for i := range d.Steps {
		names[i] = d.Steps[i].Name
	}
	return names
}
