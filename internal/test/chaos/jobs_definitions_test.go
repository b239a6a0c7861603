package chaos

import (
	"time"
)

// job is a job definition of the campaign, together with what the judge expects of it.
type job struct {
	name     string
	spec     map[string]any // in addition to name, command_name and default_args
	manner   manner
	attempts int  // maximum number of failed executions in a chain
	losses   int  // maximum number of lost assignments of a run
	letter   bool // a chain that gives up becomes a dead letter
	listens  string
	asked    bool // clients start it manually

	// due reports whether a second in the schedule's window is a slot. It is written for this one
	// schedule and shares no code with Skald's computation. Nil means that the job has no schedule.
	due      func(at, start time.Time) bool
	from, to time.Time
}

// slots returns every slot that the job must have, once each.
func (j *job) slots() []time.Time {
	var all []time.Time
	for at := j.from; j.due != nil && at.Before(j.to); at = at.Add(time.Second) {
		if j.due(at, j.from) {
			all = append(all, at)
		}
	}
	return all
}

// secondIs is for slots at the seconds that leave the remainder n when divided by of.
func secondIs(n, of int) func(time.Time, time.Time) bool {
	return func(at, _ time.Time) bool { return at.Second()%of == n }
}

// everySeconds is for slots at an interval of n seconds from the start.
func everySeconds(n int64) func(time.Time, time.Time) bool {
	return func(at, start time.Time) bool { return (at.Unix()-start.Unix())%n == 0 }
}

const maxLosses = 6

// campaignJobs returns definitions of all kinds, whose schedules begin and end at whole seconds.
func campaignJobs(from, to time.Time) []*job {
	cron := func(value, zone string) map[string]any {
		return map[string]any{"type": "cron", "value": value, "timezone": zone}
	}
	interval := func(value string) map[string]any { return map[string]any{"type": "interval", "value": value} }
	retry := func(attempts int) map[string]any {
		return map[string]any{"max_attempts": attempts, "initial_interval_ms": 200, "max_interval_ms": 1000, "multiplier": 2}
	}
	timed := func(name string, schedule map[string]any, due func(at, start time.Time) bool, m manner,
		more map[string]any) *job {
		schedule["start_at"], schedule["end_at"] = from.Format(time.RFC3339), to.Format(time.RFC3339)
		spec := map[string]any{"type": "time", "schedule": schedule}
		for k, v := range more {
			spec[k] = v
		}
		return &job{name: name, spec: spec, manner: m, due: due, from: from, to: to, attempts: 1}
	}
	quick := manner{Least: 5, Most: 250, Logs: 1}
	jobs := []*job{
		timed("every-second", cron("* * * * * *", ""), secondIs(0, 1), quick, nil),
		timed(
			"forbid",
			cron("*/3 * * * * *", "Asia/Kolkata"),
			secondIs(0, 3),
			manner{Least: 100, Most: 6000},
			map[string]any{"concurrency_policy": "forbid"},
		),
		timed(
			"replace",
			cron("2-59/5 * * * * *", "Europe/Stockholm"),
			secondIs(2, 5),
			manner{Least: 500, Most: 9000, Rude: 0.1, Logs: 2},
			map[string]any{"concurrency_policy": "replace"},
		),
		timed(
			"queue",
			interval("4s"),
			everySeconds(4),
			manner{Least: 100, Most: 5000, Logs: 1},
			map[string]any{"concurrency_policy": "queue", "queue_limit": 4},
		),
		timed(
			"shared-forbid",
			cron("1-59/4 * * * * *", ""),
			secondIs(1, 4),
			manner{Least: 50, Most: 3000},
			map[string]any{"concurrency_policy": "forbid", "concurrency_key": "shared"},
		),
		timed(
			"shared-queue",
			interval("7s"),
			everySeconds(7),
			manner{Least: 50, Most: 3000, Fail: 0.3},
			map[string]any{
				"concurrency_policy": "queue",
				"concurrency_key":    "shared",
				"retry":              retry(2),
				"retry_holds_key":    true,
			},
		),
		timed(
			"catch-up",
			cron("*/2 * * * * *", "America/New_York"),
			secondIs(0, 2),
			quick,
			map[string]any{"misfire_policy": "catch_up", "misfire_grace_ms": 4000},
		),
		timed(
			"fire-once",
			interval("3s"),
			everySeconds(3),
			quick,
			map[string]any{"misfire_policy": "fire_once", "misfire_grace_ms": 4000, "jitter_ms": 500},
		),
		timed("by-the-minute", map[string]any{"type": "every_n_minutes", "value": "1"}, everySeconds(60), quick, nil),
		{name: "listener", spec: map[string]any{"type": "event", "event": map[string]any{"event_type": "chain.*"}, "retry": retry(3)}, manner: manner{Least: 5, Most: 300, Fail: 0.3, Perma: 0.05}, listens: "chain.", attempts: 3, letter: true},
		{name: "chain", spec: map[string]any{"type": "manual", "retry": retry(2)}, manner: manner{Least: 20, Most: 600, Fail: 0.1, Logs: 2, EmitType: "chain.done", EmitJob: "chained"}, attempts: 2, asked: true},
		{name: "chained", spec: map[string]any{"type": "manual"}, manner: quick, attempts: 1},
		{name: "flaky", spec: map[string]any{"type": "manual", "retry": retry(3), "dead_letter": true}, manner: manner{Least: 10, Most: 500, Fail: 0.5, Perma: 0.1, Release: 0.1, Logs: 1}, attempts: 3, letter: true, asked: true},
		{name: "slow", spec: map[string]any{"type": "manual", "timeout_ms": 1500, "queue": "slow", "retry": retry(2), "dead_letter": true}, manner: manner{Least: 300, Most: 4000, Rude: 0.3, Logs: 3}, attempts: 2, letter: true, asked: true},
		{name: "long", spec: map[string]any{"type": "manual", "max_losses": 2, "dead_letter": true, "priority": 5}, manner: manner{Least: 3000, Most: 9000, Logs: 4}, attempts: 1, losses: 2, letter: true, asked: true},
		{name: "one-at-a-time", spec: map[string]any{"type": "manual", "concurrency_policy": "forbid"}, manner: manner{Least: 50, Most: 1500}, attempts: 1, asked: true},
		{name: "latest", spec: map[string]any{"type": "manual", "concurrency_policy": "replace"}, manner: manner{Least: 200, Most: 3000, Rude: 0.1}, attempts: 1, asked: true},
	}
	jobs = append(jobs, sagaJobs()...)
	for _, j := range jobs {
		if j.name == "shared-queue" {
			j.attempts = 2
		}
		if j.losses == 0 {
			j.losses = maxLosses
		}
	}
	return jobs
}

// document returns the definition as it is sent to Skald.
func (j *job) document() []byte {
	doc := map[string]any{"name": j.name, "command_name": "chaos", "default_args": j.manner}
	for k, v := range j.spec {
		doc[k] = v
	}
	return encode(doc)
}

// jobSettings are short times, so that a lot happens in two minutes.
var jobSettings = map[string]float64{
	"leader_tick_seconds":          0.2,
	"leader_ttl_seconds":           3,
	"assign_ahead_seconds":         2,
	"heartbeat_interval_seconds":   0.5,
	"heartbeat_ttl_seconds":        2,
	"worker_detach_grace_seconds":  3,
	"run_lease_seconds":            2,
	"assign_lease_seconds":         2,
	"continuation_confirm_seconds": 2,
	"cancel_grace_seconds":         2,
	"timeout_grace_seconds":        1,
	"max_attempts":                 maxLosses,
	"orphan_backoff_seconds":       0.2,
	"skip_late_runs_after_seconds": 6,
	"log_retention_days_db":        0,
}
