package overview

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/saga"
)

// Kind is the kind of a cause.
type Kind string

// Kinds of causes.
const (
	SagasAttention  Kind = "sagas_need_attention"
	SagasStuck      Kind = "sagas_stuck"
	GroupNew        Kind = "group_new"
	GroupRegressed  Kind = "group_regressed"
	RedriveHalted   Kind = "redrive_halted"
	RedriveWaiting  Kind = "redrive_awaiting_approval"
	RunsFailed      Kind = "runs_failed"
	RunsLate        Kind = "runs_late"
	QueueUntaken    Kind = "queue_without_worker"
	WorkerLost      Kind = "worker_lost"
	WebhookDisabled Kind = "webhook_disabled"
	WebhookFailing  Kind = "webhook_failing"
	ParticipantHeld Kind = "participant_held"
	QueueHeld       Kind = "queue_held"
	NoLeader        Kind = "no_leader"
	SweepLate       Kind = "sweep_late"
)

// Cause is why one or more items need a person.
type Cause struct {
	Kind Kind
	Name string // the workflow, topic, job definition, queue, worker, webhook, participant or node
	Step string
	Code string // error code or reason
	Why  string // for sagas: the reason for attention; for a participant: byPerson or ""
	Text string // for a group: its message; for a participant: why it is held
	ID   string // ID of the item, if there is only one; for a group, its fingerprint
	// Groups is how many groups of dead letters are merged; 0 means that at most one group is concerned.
	Groups int
	Count  Count
	Wait   Count // for a participant: the sagas that wait for it; for a queue: its waiting runs
	most   int   // number of letters in the group that supplied Text, if several are merged
	Since  time.Time
}

// Key stays the same as long as the cause lasts.
func (c *Cause) Key() string {
	id := c.ID
	if c.aggregates() {
		id = "" // the ID is only an example
	}
	return strings.Join([]string{string(c.Kind), url.QueryEscape(c.Name), url.QueryEscape(c.Step),
		url.QueryEscape(c.Why), url.QueryEscape(c.Code), id}, "/")
}

// aggregates reports whether the cause covers several items.
func (c *Cause) aggregates() bool {
	switch c.Kind {
	case SagasAttention, SagasStuck, RunsFailed, RunsLate, QueueUntaken:
		return true
	}
	return c.Groups > 0
}

// byPerson is the value of Why for a participant that a person has put on hold.
const byPerson = "person"

// Counted sets the number of items found; an n above the limit means that there are more.
func (c *Cause) Counted(n int) {
	if c.Kind == ParticipantHeld || c.Kind == QueueHeld {
		c.Count, c.Wait = Count{N: 1}, CountOf(n)
		return
	}
	most := Most
	if c.Kind == GroupNew || c.Kind == GroupRegressed {
		most = MostLetters
	}
	c.Count = upTo(most, n)
}

// Only returns the item if there is only one.
func (c *Cause) Only() string {
	if c.aggregates() && (c.Count.N != 1 || c.Count.Capped) {
		return ""
	}
	return c.ID
}

// Step is a remedy: an operation of the contract, and the permission that it requires.
type Step struct {
	Operation  string
	Permission principal.Permission
}

// Part returns the part of the overview that the caller must be allowed to read.
func (c *Cause) Part() Part {
	switch c.Kind {
	case SagasAttention, SagasStuck, ParticipantHeld:
		return Sagas
	case GroupNew, GroupRegressed, RedriveHalted, RedriveWaiting:
		return DeadLetters
	case WebhookDisabled, WebhookFailing:
		return Webhooks
	}
	return JobRuns
}

// Next returns the next step.
func (c *Cause) Next() Step {
	switch c.Kind {
	case SagasAttention:
		if c.Why == saga.ReasonForced || c.Why == raised {
			return Step{"acknowledgeSaga", principal.SagasWrite}
		}
		if slices.Contains(saga.StopReasons, c.Why) {
			if c.Why == saga.ReasonStepFailed && c.Only() == "" {
				return Step{"retrySaga", principal.SagasWrite}
			}
			return Step{"explainSaga", principal.SagasRead}
		}
		return Step{"resumeCompensation", principal.SagasWrite}
	case SagasStuck:
		if c.Why == saga.ReasonFailing && c.Only() == "" {
			return Step{"retrySaga", principal.SagasWrite}
		}
		return Step{"explainSaga", principal.SagasRead}
	case GroupNew, GroupRegressed:
		if c.Groups > 0 {
			return Step{"createRedrive", principal.DLQWrite}
		}
		return Step{"retryDeadLetterGroup", principal.DLQWrite}
	case RedriveHalted:
		return Step{"resumeRedrive", principal.DLQAdmin}
	case RedriveWaiting:
		return Step{"approveRedrive", principal.DLQAdmin}
	case RunsFailed:
		return Step{"rerunJobRun", principal.JobsWrite}
	case RunsLate, QueueUntaken:
		return Step{"explainJobRun", principal.JobsRead}
	case WorkerLost:
		return Step{"detachWorker", principal.JobsWrite}
	case WebhookDisabled:
		return Step{"enableWebhook", principal.SagasAdmin}
	case WebhookFailing:
		return Step{"testWebhook", principal.SagasAdmin}
	case ParticipantHeld:
		if c.Why == byPerson {
			return Step{"releaseParticipant", principal.SagasAdmin}
		}
		return Step{"getParticipant", principal.SagasRead}
	}
	if c.Kind == QueueHeld {
		return Step{"releaseJobQueue", principal.JobsAdmin}
	}
	return Step{"getLeader", principal.JobsRead}
}

// Link returns the path and query of the operation that returns the items.
func (c *Cause) Link() string {
	const api = "/api/v1"
	item := func(list string) string { return api + list + "/" + url.PathEscape(c.ID) }
	query := func(list string, pairs ...string) string {
		q := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			q.Add(pairs[i], pairs[i+1])
		}
		return api + list + "?" + q.Encode()
	}
	one := c.Only() != ""
	switch c.Kind {
	case SagasAttention, SagasStuck:
		if one {
			return item("/sagas")
		}
		only := []string{"needs_attention", "true", "workflow_name", c.Name}
		if c.Kind == SagasStuck {
			only = append(only, "active", "true")
		}
		if c.Code != "" {
			only = append(only, "error_code", c.Code)
		}
		switch c.Next().Operation {
		case "resumeCompensation", "retrySaga": // the step that gave up or keeps failing
			if c.Step != "" {
				only = append(only, "step", c.Step)
			}
		}
		return query("/sagas", only...)
	case GroupNew, GroupRegressed:
		if c.Groups > 0 {
			return query("/dlq/groups", "topic", c.Name, "error_type", c.Code, "state", groupStates[c.Kind])
		}
		return item("/dlq/groups")
	case RedriveHalted, RedriveWaiting:
		return item("/dlq/redrives")
	case RunsFailed:
		if one {
			return item("/job-runs")
		}
		only := []string{"definition", c.Name, "gave_up", "true", "finished_from", c.Since.UTC().Format(time.RFC3339Nano)}
		if c.Code != "" {
			only = append(only, "error_code", c.Code)
		}
		return query("/job-runs", only...)
	case RunsLate, QueueUntaken:
		if one {
			return item("/job-runs")
		}
		return query("/job-runs", "queue", c.Name, "state", "PENDING", "late_by_min", "1")
	case WorkerLost:
		return item("/workers")
	case WebhookDisabled, WebhookFailing:
		return item("/webhooks")
	case ParticipantHeld:
		return item("/participants")
	case QueueHeld:
		return item("/job-queues")
	}
	return api + "/scheduler/leader"
}

// groupStates maps the kinds of causes to the states of groups.
var groupStates = map[Kind]string{GroupNew: "NEW", GroupRegressed: "REGRESSED"}

// Merge combines groups in the same state whose letters have the same error type in the same topic
// into one cause: they fail for the same reason, with different messages. It leaves out topics that
// end in * and letters without an error type, because these cannot be selected exactly.
func (o *Overview) Merge() {
	type kind struct {
		Kind
		topic, errorType string
	}
	first := map[kind]int{} // index in kept of the cause that represents all
	kept := o.Causes[:0]
	for _, c := range o.Causes {
		k := kind{c.Kind, c.Name, c.Code}
		i, known := first[k]
		switch {
		case groupStates[c.Kind] == "" || c.Code == "" || c.Name == "" || strings.HasSuffix(c.Name, "*"):
		case !known:
			first[k] = len(kept)
		default:
			kept[i].join(&c)
			continue
		}
		kept = append(kept, c)
	}
	o.Causes = kept
}

// join adds the group of another cause. Text remains that of the group with the most letters.
func (c *Cause) join(o *Cause) {
	if c.Groups == 0 {
		c.Groups, c.most = 1, c.Count.N
	}
	if o.Count.N > c.most || o.Count.N == c.most && o.Text < c.Text {
		c.Text, c.most = o.Text, o.Count.N
	}
	c.ID = ""
	c.Groups++
	c.Count = c.Count.Add(o.Count)
	if o.Since.Before(c.Since) {
		c.Since = o.Since
	}
}
