package jobrun

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun/schedule"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/retry"
)

// Type determines which event or schedule creates runs of a definition automatically. Any
// definition can also be run on request.
type Type string

// Types.
const (
	OnTime   Type = "time"
	OnEvent  Type = "event"
	OnDemand Type = "manual"
)

// Types lists all types.
var Types = []Type{OnTime, OnEvent, OnDemand}

// Policy determines what happens to a run that is due while another run with its concurrency key
// has not ended (A-01, S18).
type Policy string

// Concurrency policies.
const (
	Forbid  Policy = "forbid"  // the new run is SKIPPED; a manual one is refused
	Allow   Policy = "allow"   // any number at once
	Replace Policy = "replace" // the old run is canceled before the new one starts
	Queue   Policy = "queue"   // one after another, in slot order
)

// Policies lists all policies.
var Policies = []Policy{Forbid, Allow, Replace, Queue}

// Misfire determines the treatment of slots that are later than the definition's grace period
// allows, because there was no leader or the definition was paused (A-04, S22).
type Misfire string

// These are the misfire policies. Slots that do not run are recorded as SKIPPED, so that the gap is
// visible. If there are more than Spec.CatchUpLimit, only the newest are recorded.
const (
	SkipLate Misfire = "skip"
	FireOnce Misfire = "fire_once" // only the newest one runs
	CatchUp  Misfire = "catch_up"  // all run, oldest first, up to Spec.CatchUpLimit
)

// Misfires lists all misfire policies.
var Misfires = []Misfire{SkipLate, FireOnce, CatchUp}

// Spec is the versioned part of a definition. It is stored and sent as JSON.
type Spec struct {
	Description string            `json:"description,omitempty"`
	Type        Type              `json:"type"`
	CommandName string            `json:"command_name"` // what a worker runs
	DefaultArgs json.RawMessage   `json:"default_args,omitempty"`
	ArgsSchema  json.RawMessage   `json:"args_schema,omitempty"` // JSON Schema; nil: any arguments
	Schedule    *schedule.Spec    `json:"schedule,omitempty"`    // for OnTime
	Event       *EventTrigger     `json:"event,omitempty"`       // for OnEvent
	TimeoutMS   int64             `json:"timeout_ms,omitempty"`  // of an attempt, from its start; 0: no timeout
	Retry       retry.Policy      `json:"retry"`                 // for failures; MaxAttempts 1: no retry
	MaxLosses   int               `json:"max_losses,omitempty"`  // limit of lost assignments (S7); 0: the setting
	Queue       string            `json:"queue,omitempty"`       // "": default
	Priority    int               `json:"priority,omitempty"`    // -100..100, higher first
	Requires    map[string]string `json:"required_labels,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"` // of its runs, for lists
	Concurrency Policy            `json:"concurrency_policy,omitempty"`
	// ConcurrencyKey is shared by all definitions of the tenant that specify it; "" means a key of
	// this definition alone.
	ConcurrencyKey string  `json:"concurrency_key,omitempty"`
	QueueLimit     int     `json:"queue_limit,omitempty"`     // with Queue: how many runs may wait; 0: any number
	RetryHoldsKey  bool    `json:"retry_holds_key,omitempty"` // a waiting retry prevents the start of the next slot
	Misfire        Misfire `json:"misfire_policy,omitempty"`
	MisfireGraceMS int64   `json:"misfire_grace_ms,omitempty"` // 0: the setting skip_late_runs_after_seconds applies
	CatchUpLimit   int     `json:"catch_up_limit,omitempty"`   // 0 means 100
	JitterMS       int64   `json:"jitter_ms,omitempty"`        // a run starts up to this long after its slot
	// DeadLetter determines whether a run that gives up becomes a dead letter. Nil means yes for
	// runs of events, sagas and dead letters, and no for all others (one-product.md, point 4).
	DeadLetter *bool `json:"dead_letter,omitempty"`
	// Emit names the Kafka topics to which events of its runs are published.
	Emit []EmitTopic `json:"emit,omitempty"`
}

// numbers checks the bounds of the numbers in a spec, and the choices that are independent of other
// members.
func (w *mistakes) numbers(s *Spec) {
	w.within("/timeout_ms", s.TimeoutMS, 0, MaxTimeoutMS)
	w.within("/max_losses", int64(s.MaxLosses), 0, 100)
	w.within("/priority", int64(s.Priority), -MaxPriority, MaxPriority)
	w.within("/queue_limit", int64(s.QueueLimit), 0, MaxQueueLimit)
	w.within("/misfire_grace_ms", s.MisfireGraceMS, 0, MaxTimeoutMS)
	w.within("/catch_up_limit", int64(s.CatchUpLimit), 0, MaxCatchUp)
	w.within("/jitter_ms", s.JitterMS, 0, time.Hour.Milliseconds())
	if !slices.Contains(append(Misfires, ""), s.Misfire) {
		w.Add("/misfire_policy", "enum", "must be one of %v", Misfires)
	}
}

func (w *mistakes) retries(s *Spec) {
	r := s.Retry
	w.within("/retry/max_attempts", int64(r.MaxAttempts), 0, MaxRetries)
	w.within("/retry/initial_interval_ms", r.InitialIntervalMS, 0, MaxTimeoutMS)
	w.within("/retry/max_interval_ms", r.MaxIntervalMS, 0, MaxTimeoutMS)
	if m := r.Multiplier; m != 0 && (m < 1 || m > 100 || math.IsNaN(m)) {
		w.Add("/retry/multiplier", "out_of_range", "must be from 1 to 100")
	}
	if j := r.Jitter; j != nil && (*j < 0 || *j > 1 || math.IsNaN(*j)) {
		w.Add("/retry/jitter", "out_of_range", "must be from 0 to 1")
	}
}

// ShellCommand is the command that runs programs. The definition's default_args determine which
// program it runs. The arguments of a run are only data for that program and never replace the
// default ones.
const ShellCommand = "shell"

// Data returns the arguments to which the definition's schema applies: the requested ones if there
// are any, otherwise the default ones. Default arguments that name a program are not data.
func (s *Spec) Data(asked json.RawMessage) json.RawMessage {
	if asked == nil && s.CommandName != ShellCommand {
		return s.DefaultArgs
	}
	return asked
}

// EventTrigger selects events.
type EventTrigger struct {
	EventType string `json:"event_type"` // exact, or with one * at its end
	// Match selects payloads in which each dotted path has the given value, a JSON scalar.
	Match map[string]json.RawMessage `json:"match,omitempty"`
	// Args determines the arguments of the run: "event" (id, type, payload and times; the default)
	// or "payload".
	Args string `json:"args_from,omitempty"`
}

// EmitTopic names a Kafka topic to which events of a type, when runs of the definition emit them,
// are published in addition.
type EmitTopic struct {
	EventType string `json:"event_type"` // exact, or with one * at its end
	Topic     string `json:"topic"`
}

// MaxEmitTopics is the maximum number of EmitTopics in a definition.
const MaxEmitTopics = 32

// TopicOf returns the topic for events of a type, from the first matching entry; "" if none
// matches.
func (s *Spec) TopicOf(eventType string) string {
	for _, e := range s.Emit {
		if typeMatches(e.EventType, eventType) {
			return e.Topic
		}
	}
	return ""
}

// typeMatches reports whether a type equals the selector or, if that ends with *, begins with its
// prefix.
func typeMatches(selected, eventType string) bool {
	if prefix, ok := strings.CutSuffix(selected, "*"); ok {
		return strings.HasPrefix(eventType, prefix)
	}
	return selected == eventType
}

// Limits of definitions.
const (
	MaxName         = 255
	MaxDescription  = 2000
	MaxQueueName    = 100
	MaxLabels       = 32
	MaxArgs         = 1 << 20            // bytes
	MaxTimeoutMS    = 7 * 24 * 3_600_000 // a week
	MaxCatchUp      = 10_000
	DefaultCatchUp  = 100
	DefaultQueue    = "default"
	SystemQueue     = "system" // for built-in definitions, which Skald's own worker runs
	SystemPrefix    = "system."
	MaxReason       = 500 // characters
	MaxProgress     = 1000
	MaxErrorCode    = 100 // bytes
	MaxWord         = 255
	MaxPriority     = 100
	MaxRetries      = 1000
	MaxQueueLimit   = 1000
	MaxBackfill     = 100_000 // slots in one request
	MaxClaim        = 1000    // runs in one claim, or calls in one batch
	MaxLogChunk     = 256 << 10
	MaxLog          = 64 << 20 // bytes of a run's log, over all its attempts
	MaxResult       = 1 << 20
	MaxEmitted      = 100
	MaxErrorMessage = 8 << 10
	MaxErrorStack   = 64 << 10
)

// Definition is a job definition in its current version.
type Definition struct {
	ID          uuid.UUID
	TenantID    uuid.UUID
	Name        string // unique per tenant among those not deleted
	Version     int64  // ETag
	SpecVersion int    // of Spec
	Spec        Spec
	// Unreadable reports that the stored spec is damaged. In that case, Spec contains only the type
	// and the command, and the definition creates no runs.
	Unreadable  bool
	Enabled     bool
	PausedAt    *time.Time
	PausedUntil *time.Time // nil: until it is resumed
	PauseReason string
	BuiltIn     bool // built in: can be paused and run, but not deleted

	LastMaterializedAt time.Time  // slots up to this time have a run or are recorded as skipped
	NextDueAt          *time.Time // nil: no automatic runs

	CreatedAt, UpdatedAt time.Time
	CreatedBy, UpdatedBy string
	DeletedAt            *time.Time
}

// Place returns the definition's position in a list.
func (d *Definition) Place() page.TimeID { return page.TimeID{At: d.CreatedAt, ID: d.ID} }

// Paused reports whether automatic runs are paused at now.
func (d *Definition) Paused(now time.Time) bool {
	return d.PausedAt != nil && (d.PausedUntil == nil || now.Before(*d.PausedUntil))
}

// SpecVersion is one version of a definition's spec.
type SpecVersion struct {
	Number int
	Spec   Spec
	// Unreadable reports that the stored version is damaged.
	Unreadable bool
	CreatedAt  time.Time
	CreatedBy  string
}
