package jobapi

import (
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
)

// examined is the number of runs whose changes a dry run computes.
const examined = 100

// toAPIRun converts a run. If content is set, the result includes the run's arguments, result and
// checkpoint.
func toAPIRun(r *jobrun.Run, content bool) api.JobRun {
	out := api.JobRun{
		ID: r.ID, JobDefinition: api.JobDefinitionSummary{ID: r.DefinitionID, Name: r.DefinitionName,
			SpecVersion: r.SpecVersion},
		CommandName: r.CommandName, Version: r.Version, State: api.JobRunState(r.State), Trigger: api.JobTrigger(r.Trigger),
		ScheduledFor: r.ScheduledFor, AvailableAt: r.AvailableAt, AdmittedAt: r.AdmittedAt, Queue: r.Queue,
		Priority:       r.Priority,
		RequiredLabels: labelsOf(r.RequiredLabels), Labels: labelsOf(r.Labels), IdempotencyKey: r.IdempotencyKey,
		ConcurrencyKey: httpkit.UnlessEmpty(r.ConcurrencyKey), ConcurrencyPolicy: api.JobConcurrencyPolicy(r.Concurrency),
		Attempt: r.Attempt, FailuresUsed: r.FailuresUsed, LossesUsed: r.LossesUsed, MaxLosses: r.MaxLosses,
		AssignedAt: r.AssignedAt, AssignedWorkerID: httpkit.UnlessNil(r.WorkerID), LeaseExpiresAt: r.LeaseExpiresAt,
		StartedAt: r.StartedAt, FinishedAt: r.FinishedAt, ContinuationState: api.JobRunContinuationState(r.Continuation),
		ContinuationCheckStartedAt: r.ConfirmStartedAt, ContinuationCheckDeadlineAt: r.ConfirmDeadlineAt,
		CancelRequestedAt: r.CancelRequestedAt, CancelReason: httpkit.UnlessEmpty(r.CancelReason), ExitCode: r.ExitCode,
		SkipReason:              httpkit.UnlessEmpty(r.SkipReason),
		ErrorSummary:            httpkit.UnlessEmpty(r.Summary()),
		ResourceCPUSecondsTotal: r.Resources.CPUSecondsTotal, ResourcePeakRssBytes: r.Resources.PeakRSSBytes,
		ResourceIoReadBytes: r.Resources.IOReadBytes, ResourceIoWriteBytes: r.Resources.IOWriteBytes, LogBytes: r.LogBytes,
		LogRef:    httpkit.UnlessEmpty(r.LogRef),
		RootRunID: r.RootRunID, RetryOfRunID: httpkit.UnlessNil(r.RetryOfRunID), RetryNumber: r.RetryNumber,
		SagaID: httpkit.UnlessNil(r.SagaID), SagaAction: httpkit.UnlessEmpty(r.SagaAction),
		EventID:      httpkit.UnlessNil(r.EventID),
		DlqMessageID: httpkit.UnlessNil(r.LetterID),
		BackfillID:   httpkit.UnlessNil(r.BackfillID), CorrelationID: httpkit.UnlessEmpty(r.CorrelationID),
		TraceID:   httpkit.UnlessEmpty(r.TraceID),
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, AllowedActions: verbsOf(r), Links: linksOf(r),
		InitiatedBy: httpkit.UnlessEmpty(r.InitiatedBy),
	}
	if r.ContentUnreadable {
		out.ContentUnreadable = &r.ContentUnreadable
	}
	if r.TimeoutMS > 0 {
		out.TimeoutMS = &r.TimeoutMS
	}
	if r.Attempt > 0 {
		out.LeaderEpoch = &r.LeaderEpoch
		out.FencingToken = new(r.FencingToken())
	}
	if r.SagaID != uuid.Nil {
		out.SagaStep = &r.SagaStep
	}
	if p := r.Progress; p != nil {
		out.Progress = &api.JobProgress{Percent: p.Percent, Message: httpkit.UnlessEmpty(p.Message), Counters: p.Counters}
	}
	if r.Error != nil {
		out.Error = &api.JobRunError{Code: r.Error.Code, Type: httpkit.UnlessEmpty(r.Error.Type), Message: r.Error.Message,
			Retryable: r.Error.Retryable}
	}
	if content {
		out.Args, out.Result, out.Checkpoint = r.Args, r.Result, r.Checkpoint
		if r.Error != nil {
			out.Error.Stack = httpkit.UnlessEmpty(r.Error.Stack)
		}
	}
	return out
}

// labelsOf is the inverse of jobrun.Pairs; it never returns nil.
func labelsOf(pairs []string) api.JobLabels {
	out := make(api.JobLabels, len(pairs))
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		out[name] = value
	}
	return out
}

func verbsOf(r *jobrun.Run) []api.JobRunVerb {
	out := []api.JobRunVerb{}
	for _, verb := range r.Actions() {
		out = append(out, api.JobRunVerb(verb))
	}
	return out
}

func linksOf(r *jobrun.Run) api.JobLinks {
	path := runPath(r.ID)
	out := api.JobLinks{
		"self": path, "job_definition": "/api/v1/job-definitions/" + url.PathEscape(r.DefinitionID.String()),
		"attempts": path + "/attempts", "events": path + "/events", "explain": path + "/explain", "logs": path + "/logs",
	}
	for name, id := range map[string]uuid.UUID{"root": r.RootRunID, "retry_of": r.RetryOfRunID} {
		if id != uuid.Nil && id != r.ID {
			out[name] = runPath(id)
		}
	}
	for name, to := range map[string]struct {
		path string
		id   uuid.UUID
	}{
		"saga": {"/api/v1/sagas/", r.SagaID}, "event": {"/api/v1/events/", r.EventID},
		"dead_letter": {"/api/v1/dlq/messages/", r.LetterID},
		"backfill":    {"/api/v1/backfills/", r.BackfillID}, "worker": {"/api/v1/workers/", r.WorkerID},
	} {
		if to.id != uuid.Nil {
			out[name] = to.path + to.id.String()
		}
	}
	return out
}

func toAPIJobAttempt(a *jobrun.Attempt) api.JobAttempt {
	r := jobrun.Run{LeaderEpoch: a.Fence.LeaderEpoch, FencingSeq: a.FencingSeq}
	return api.JobAttempt{
		Attempt: a.Number, WorkerID: a.Fence.WorkerID, LeaderEpoch: a.Fence.LeaderEpoch, FencingToken: new(r.FencingToken()),
		AssignedAt: a.AssignedAt, StartedAt: a.StartedAt, EndedAt: a.EndedAt, Outcome: httpkit.UnlessEmpty(a.Outcome),
		Reason: httpkit.UnlessEmpty(a.Reason),
	}
}

func toAPIJobEvents(events []jobrun.HistoryEvent) []api.JobEvent {
	out := make([]api.JobEvent, len(events))
	for i := range events {
		e := &events[i]
		out[i] = api.JobEvent{
			At: e.At, Kind: api.JobEventKind(e.Kind), FromState: httpkit.EnumUnlessEmpty[api.JobRunState](string(e.From)),
			ToState:  httpkit.EnumUnlessEmpty[api.JobRunState](string(e.To)),
			WorkerID: httpkit.UnlessNil(e.WorkerID), Actor: httpkit.UnlessEmpty(e.Actor), Reason: httpkit.UnlessEmpty(e.Reason),
		}
		if e.Version > 0 {
			out[i].Version = &e.Version
		}
		if e.Attempt > 0 {
			out[i].Attempt = &e.Attempt
		}
		if e.Epoch > 0 {
			out[i].Epoch = &e.Epoch
		}
	}
	return out
}

func runPath(id uuid.UUID) string { return "/api/v1/job-runs/" + id.String() }
