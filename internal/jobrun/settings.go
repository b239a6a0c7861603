package jobrun

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/skald-saga/skald/internal/fault"
)

// Setting is a parameter that operators may change while Skald runs.
type Setting struct {
	Name        string
	Unit        string // "seconds", "count", "weight", "days", "share", or "" for a switch
	Default     float64
	Min         float64
	Max         float64
	Integer     bool
	Switch      bool   // 0 or 1, shown as a boolean
	Effect      string // when a change takes effect
	Description string
}

// Names of settings.
const (
	LeaderTick        = "leader_tick_seconds"
	LeaderTTL         = "leader_ttl_seconds"
	AssignAhead       = "assign_ahead_seconds"
	HeartbeatInterval = "heartbeat_interval_seconds"
	HeartbeatTTL      = "heartbeat_ttl_seconds"
	DetachGrace       = "worker_detach_grace_seconds"
	RunLease          = "run_lease_seconds"
	AssignLease       = "assign_lease_seconds"
	ReassignAfter     = "reassign_after_seconds"
	ConfirmFor        = "continuation_confirm_seconds"
	CancelGrace       = "cancel_grace_seconds"
	TimeoutGrace      = "timeout_grace_seconds"
	MaxLosses         = "max_attempts"
	MaxRunsPerWorker  = "max_jobs_per_worker"
	OrphanBackoff     = "orphan_backoff_seconds"
	SkipLateAfter     = "skip_late_runs_after_seconds"
	LogRetentionDays  = "log_retention_days_db"
	RunRetentionDays  = "run_retention_days"
	EventDedupeHours  = "event_dedupe_hours"
	EventRetention    = "event_retention_days"
	SweepLimit        = "sweep_limit"
)

// SettingsList lists all settings in display order. Settings of A-07 that are missing here do not
// apply, because workers pull their runs; docs/requirements.md lists their replacements.
var SettingsList = []Setting{
	{Name: LeaderTick, Unit: "seconds", Default: 1, Min: 0.1, Max: 60, Effect: sweep,
		Description: "how often the leader sweeps"},
	{Name: LeaderTTL, Unit: "seconds", Default: 10, Min: 3, Max: 120, Effect: sweep, Description: "how long the leader's lease lasts without renewal; after a crash, another node takes over once it has expired"},
	{Name: AssignAhead, Unit: "seconds", Default: 60, Min: 1, Max: 3600, Effect: sweep, Description: "how long before its slot a run is created; the run stays PENDING until the slot"},
	{Name: HeartbeatInterval, Unit: "seconds", Default: 5, Min: 0.5, Max: 60, Effect: beat, Description: "how often workers are asked to send heartbeats"},
	{Name: HeartbeatTTL, Unit: "seconds", Default: 15, Min: 1, Max: 300, Effect: sweep, Description: "how long after its last heartbeat or claim a worker becomes LOST and gets no new runs"},
	{Name: DetachGrace, Unit: "seconds", Default: 10, Min: 0, Max: 3600, Effect: sweep, Description: "how long a worker stays LOST before it is DETACHED and must register again"},
	{Name: RunLease, Unit: "seconds", Default: 30, Min: 1, Max: 3600, Effect: beat, Description: "how long a worker keeps a started run without a heartbeat"},
	{Name: AssignLease, Unit: "seconds", Default: 20, Min: 1, Max: 3600, Effect: claim, Description: "how long a worker has to start an assigned run"},
	{Name: ReassignAfter, Unit: "seconds", Default: 0, Min: 0, Max: 3600, Effect: sweep, Description: "how long after the end of its assign lease an unstarted run becomes ORPHANED"},
	{Name: ConfirmFor, Unit: "seconds", Default: 30, Min: 1, Max: 3600, Effect: sweep, Description: "how long a RUNNING run whose lease has ended stays in doubt and may be confirmed, before it becomes ORPHANED"},
	{Name: CancelGrace, Unit: "seconds", Default: 30, Min: 0, Max: 86400, Effect: sweep, Description: "how long a worker has to stop a canceled run before its result is rejected"},
	{Name: TimeoutGrace, Unit: "seconds", Default: 5, Min: 0, Max: 3600, Effect: sweep, Description: "how long after its timeout_ms the leader ends a run as TIMED_OUT, if its worker has not"},
	{Name: MaxLosses, Unit: "count", Default: 5, Min: 1, Max: 100, Integer: true, Effect: next, Description: "how many assignments of a run may be lost before the run becomes FAILED with the error code LOST, unless its definition sets max_losses"},
	{Name: MaxRunsPerWorker, Unit: "count", Default: 100, Min: 1, Max: 10_000, Integer: true, Effect: claim,
		Description: "how many runs a worker may hold at once, regardless of how many it requests"},
	{Name: OrphanBackoff, Unit: "seconds", Default: 1, Min: 0, Max: 3600, Effect: sweep, Description: "how long an orphaned run waits before it can be assigned again"},
	{Name: SkipLateAfter, Unit: "seconds", Default: 300, Min: 0, Max: 604800, Effect: sweep, Description: "how late a slot may be before the misfire policy of its definition applies"},
	{Name: LogRetentionDays, Unit: "days", Default: 7, Min: 0, Max: 3650, Effect: sweep, Description: "how long the log of an ended run stays in the database, if a log store is configured"},
	{Name: RunRetentionDays, Unit: "days", Default: 90, Min: 1, Max: 36500, Effect: sweep,
		Description: "how long ended runs are kept"},
	{Name: EventDedupeHours, Unit: "hours", Default: 24, Min: 0, Max: 8760, Effect: sweep, Description: "how long the dedupe key of an event is remembered"},
	{Name: EventRetention, Unit: "days", Default: 30, Min: 1, Max: 3650, Effect: sweep, Description: "how long processed events are kept"},
	{Name: SweepLimit, Unit: "count", Default: 1000, Min: 10, Max: 10_000, Integer: true, Effect: sweep, Description: "how many runs a sweep processes in one transaction"},
}

// These texts describe when a change takes effect.
const (
	sweep = "next sweep"
	beat  = "next heartbeat"
	claim = "next claim"
	next  = "next run"
)

// Settings are the values of all settings, in one version.
type Settings struct {
	Version int64
	values  map[string]float64 // those that differ from their default
}

// NewSettings returns settings with these values. For unknown names and values out of bounds, the
// default applies.
func NewSettings(version int64, values map[string]float64) Settings {
	s := Settings{Version: version, values: map[string]float64{}}
	for name, v := range values {
		if CheckSetting(name, v) == nil {
			s.values[name] = v
		}
	}
	return s
}

// Number returns the value of a setting in its unit.
func (s Settings) Number(name string) float64 {
	if v, ok := s.values[name]; ok {
		return v
	}
	if d, ok := FindSetting(name); ok {
		return d.Default
	}
	return 0
}

// IsDefault reports whether the setting has its default value.
func (s Settings) IsDefault(name string) bool { _, differs := s.values[name]; return !differs }

// Seconds returns the value of a setting whose unit is seconds.
func (s Settings) Seconds(name string) time.Duration {
	return time.Duration(s.Number(name) * float64(time.Second))
}

// Int returns the value of an integer setting.
func (s Settings) Int(name string) int { return int(s.Number(name)) }

// FindSetting returns the setting with the given name.
func FindSetting(name string) (Setting, bool) {
	for _, d := range SettingsList {
		if d.Name == name {
			return d, true
		}
	}
	return Setting{}, false
}

// CheckSetting validates a value. It returns nil, or a fault of kind Invalid.
func CheckSetting(name string, v float64) error {
	d, ok := FindSetting(name)
	switch {
	case !ok:
		return mistake(name, "unknown", "there is no setting %q", name)
	case math.IsNaN(v) || v < d.Min || v > d.Max:
		return mistake(name, "out_of_range", "must be from %v to %v", d.Min, d.Max)
	case d.Integer && v != math.Trunc(v):
		return mistake(name, "not_whole", "must be a whole number")
	}
	return nil
}

// CheckSettings validates changes, in which nil restores the default; after contains the resulting
// settings. It returns nil, or a fault of kind Invalid that lists every mistake.
func CheckSettings(changes map[string]*float64, after Settings) error {
	var wrong fault.Mistakes
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		d, _ := FindSetting(name)
		v := d.Default
		if changes[name] != nil {
			v = *changes[name]
		}
		if f := fault.As(CheckSetting(name, v)); f != nil {
			wrong = append(wrong, f.Fields...)
		}
	}
	if wrong == nil {
		// A worker must be able to miss a heartbeat without losing its lease.
		for _, longer := range []string{HeartbeatTTL, RunLease} {
			if after.Number(longer) < 2*after.Number(HeartbeatInterval) {
				wrong.Add("/values/"+longer, "too_short", "must be at least twice %s", HeartbeatInterval)
			}
		}
	}
	if wrong == nil {
		return nil
	}
	f := fault.New(fault.Invalid, CodeSetting, "%s %s", wrong[0].Pointer, wrong[0].Message)
	return f.With(wrong...)
}

func mistake(name, code, format string, args ...any) error {
	f := fault.New(fault.Invalid, CodeSetting, format, args...)
	return f.With(fault.Field{Pointer: "/values/" + name, Code: code, Message: f.Detail})
}
