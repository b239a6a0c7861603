package jobrun

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun/schedule"
	"github.com/skald-saga/skald/internal/retry"
)

// BuiltIn is a definition that every deployment has (one-product.md, point 5), in the default
// tenant of its nodes. Operators can pause, run and change it, and Skald never overwrites their
// changes.
type BuiltIn struct {
	Name string
	Spec Spec
}

// These are the names of built-in definitions, which are also their commands.
const (
	SystemRedrive    = SystemPrefix + "dlq.redrive"
	SystemArchive    = SystemPrefix + "dlq.archive"
	SystemPurge      = SystemPrefix + "dlq.purge_archive"
	SystemOffload    = SystemPrefix + "jobs.log_offload"
	SystemRetention  = SystemPrefix + "jobs.retention"
	SystemInvariants = SystemPrefix + "invariants"
	SystemReseal     = SystemPrefix + "reseal"
)

// Beyond reports whether a run of a command with these arguments may affect more than limit dead
// letters, which an operator is not allowed to do.
func Beyond(command string, args json.RawMessage, limit int64) bool {
	if command != SystemRedrive {
		return false
	}
	var a struct {
		Max int64 `json:"max_messages"`
	}
	return len(args) == 0 || json.Unmarshal(args, &a) != nil || a.Max <= 0 || a.Max > limit
}

// BuiltIns lists the built-in definitions.
var BuiltIns = []BuiltIn{
	{SystemRedrive, Spec{
		Description: "retries dead letters of one topic or of all topics: at most max_messages, at rate_per_second",
		Type:        OnDemand, TimeoutMS: 24 * hourMS, Concurrency: Allow,
		ArgsSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"topic":{"type":"string","minLength":1,"maxLength":255},` +
			`"max_messages":{"type":"integer","minimum":1},"rate_per_second":{"type":"number","exclusiveMinimum":0},"reason":{"type":"string","maxLength":500}}}`),
	}},
	{SystemArchive, daily("02:10", "archives dead letters whose retention period has ended")},
	{SystemPurge, daily("02:40", "deletes archived dead letters that have expired, and old counts")},
	// Nodes do this work continuously; a run executes one round immediately.
	{SystemOffload, system("immediately moves the logs of ended job runs to the log store and purges expired runs", nil)},
	{SystemRetention, daily("03:40", "deletes data that job runs no longer need: processed events, answered claims and old fencing tokens")},
	{SystemReseal, Spec{
		Description: "re-encrypts with the current key all data that is still encrypted with older keys, and reports which keys are still needed",
		Type:        OnTime, Misfire: FireOnce, Schedule: &schedule.Spec{Type: schedule.DailyAt, Value: "04:10"},
		TimeoutMS: 24 * hourMS, Concurrency: Forbid,
	}},
	{SystemInvariants, every("1h", "checks the invariants, and fails if any of them is violated")},
}

const hourMS = 3_600_000

func daily(at, what string) Spec {
	return system(what, &schedule.Spec{Type: schedule.DailyAt, Value: at})
}

func every(period, what string) Spec {
	return system(what, &schedule.Spec{Type: schedule.Interval, Value: period})
}

func system(what string, s *schedule.Spec) Spec {
	spec := Spec{Description: what, Type: OnDemand, Schedule: s, TimeoutMS: hourMS, Concurrency: Forbid}
	if s != nil {
		spec.Type, spec.Misfire = OnTime, FireOnce
	}
	return spec
}

// Definition returns the definition as it is first stored for a tenant.
func (b BuiltIn) Definition(tenant, id uuid.UUID, now time.Time) (Definition, error) {
	spec := b.Spec
	spec.CommandName, spec.Queue = b.Name, SystemQueue
	spec.Retry = retry.Policy{MaxAttempts: 2, InitialIntervalMS: 60_000}
	d := Definition{
		ID:          id,
		TenantID:    tenant,
		Name:        b.Name,
		Version:     1,
		SpecVersion: 1,
		Spec:        spec.Complete(),
		Enabled:     true,
		BuiltIn:     true,
		CreatedAt:   now,
		UpdatedAt:   now,
	}
	if spec.Schedule != nil {
		if _, err := CompileSchedule("/schedule", *spec.Schedule); err != nil {
			return d, err
		}
	}
	return d.Rescheduled(now), nil
}
