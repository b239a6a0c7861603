package dlqapi

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/httpkit"
)

// redriveAsked parses a request for a redrive. Faults: Invalid; Forbidden if its filter uses
// content that the caller may not read.
func redriveAsked(ctx context.Context, b *api.RedriveInput) (bulk, error) {
	dry := b.DryRun != nil && *b.DryRun
	out := bulk{asked: dlq.RedriveRequest{All: b.All != nil && *b.All, Unexplained: dry}, dryRun: dry}
	r := dlq.Redrive{
		Action: dlq.RedriveAction(b.Action), Order: dlq.Order(httpkit.Text(b.Order)), Force: b.Force != nil && *b.Force,
		Approval: b.ApprovalRequired != nil && *b.ApprovalRequired, Reason: httpkit.Text(b.Reason),
		IncludeLater: b.IncludeLater != nil && *b.IncludeLater, HaltsAbove: b.Expected,
	}
	if b.Ids != nil {
		r.IDs = make([]uuid.UUID, len(b.Ids))
		copy(r.IDs, b.Ids)
	}
	if b.MaxMessages != nil {
		r.Max = *b.MaxMessages
	}
	if b.RatePerSecond != nil {
		r.Rate = *b.RatePerSecond
	}
	if b.Concurrency != nil {
		r.Concurrency = int(*b.Concurrency)
	}
	if b.Target != nil {
		r.Target = new(targetOf(b.Target))
	}
	if b.Canary != nil {
		c := dlq.Canary{Count: int(b.Canary.Count)}
		if b.Canary.WatchSeconds != nil {
			c.WatchSeconds = int(*b.Canary.WatchSeconds)
		}
		if b.Canary.MaxBounceRatio != nil {
			c.MaxBounceRatio = *b.Canary.MaxBounceRatio
		}
		r.Canary = &c
	}
	if stop := stopOf(b.StopOn); stop != nil {
		r.StopOn = *stop
	}
	if b.ScheduledFor != nil {
		r.ScheduledFor = new(b.ScheduledFor.UTC().Truncate(time.Microsecond))
	}
	var err error
	if b.Transform != nil {
		if r.Transform, err = json.Marshal(b.Transform); err != nil {
			return out, err
		}
	}
	if b.Filter != nil {
		if r.Filter, r.Query, err = bodyFilter(ctx, b.Filter); err != nil {
			return out, err
		}
	}
	out.redrive = r
	return out, nil
}

func targetOf(in *api.DeadLetterTarget) dlq.Target {
	return dlq.Target{Kind: dlq.TargetKind(in.Kind), Topic: httpkit.Text(in.Topic), Partition: in.Partition,
		URL: httpkit.Text(in.URL), Method: httpkit.Text(in.Method)}
}

func stopOf(in *api.RedriveStop) *dlq.StopOn {
	if in == nil {
		return nil
	}
	var out dlq.StopOn
	if in.Failures != nil {
		out.Failures = *in.Failures
	}
	if in.FailureRatio != nil {
		out.FailureRatio = *in.FailureRatio
	}
	return &out
}

func toAPIRedrive(r *dlq.Redrive, now time.Time) api.Redrive {
	out := api.Redrive{
		ID: r.ID, Action: api.RedriveAction(r.Action), State: api.RedriveState(r.State),
		HaltReason: httpkit.UnlessEmpty(r.HaltReason),
		Filter:     r.Query, RatePerSecond: r.Rate, Concurrency: r.Concurrency, Order: api.RedriveOrder(r.Order),
		Transform: r.Transform, Force: r.Force, ScheduledFor: r.ScheduledFor, ApprovalRequired: r.Approval,
		Reason: httpkit.UnlessEmpty(r.Reason),
		Actor:  r.Actor, ApprovedBy: httpkit.UnlessEmpty(r.ApprovedBy),
		ActorName: httpkit.UnlessEmpty(r.ActorName), ApprovedByName: httpkit.UnlessEmpty(r.ApprovedByName),
		Matched: r.Matched, Gathered: r.Gathered,
		Done:    r.Done,
		Failed:  r.Failed,
		Skipped: r.Skipped, Bounced: r.Bounced, Left: r.Left(), Eta: r.ETA(now), CreatedAt: r.CreatedAt,
		StartedAt: r.StartedAt,
		WatchedAt: r.WatchedAt, EndedAt: r.EndedAt, UpdatedAt: r.UpdatedAt, Version: r.Version,
		AllowedActions: httpkit.Enums[api.RedriveVerb](r.Actions()),
	}
	out.FilterUnreadable = httpkit.UnlessFalse(r.Unreadable)
	out.IncludeLater, out.Expected, out.HaltsAbove = r.IncludeLater, r.Expected, r.HaltsAbove
	if r.IDs != nil {
		out.Selected = new(int64(len(r.IDs)))
	}
	if r.Max > 0 {
		out.MaxMessages = &r.Max
	}
	if r.Target != nil {
		out.Target = new(toAPITarget(r.Target))
	}
	if c := r.Canary; c != nil {
		//nolint:gosec // converts back what came from an int32
		out.Canary = &api.RedriveCanary{Count: int32(c.Count), WatchSeconds: new(int32(c.WatchSeconds)),
			MaxBounceRatio: &c.MaxBounceRatio}
		out.CanaryPassed = &r.CanaryOK
	}
	if r.StopOn.Failures > 0 {
		out.StopOn.Failures = &r.StopOn.Failures
	}
	if r.StopOn.FailureRatio > 0 {
		out.StopOn.FailureRatio = &r.StopOn.FailureRatio
	}
	tried, failed := r.Counted()
	out.Counted = api.RedriveCounts{Tried: tried, Failed: failed}
	out.Sent, out.MaybeSent, out.Repeated, out.NeverSent = r.Sent, r.MaybeSent, r.Repeated, r.NeverSent()
	out.LastError, out.LastErrorAt = httpkit.UnlessEmpty(r.LastError), r.LastErrorAt
	if out.Halts = r.Halts; r.LastHaltedAt != nil {
		out.LastHalt = &api.RedriveHalt{Reason: r.LastHalt, At: *r.LastHaltedAt}
	}
	if since, what := r.Stalled(now); since != nil {
		out.StalledSince, out.WaitingFor = since, httpkit.UnlessEmpty(what)
	}
	if out.AllowedActions == nil {
		out.AllowedActions = []api.RedriveVerb{}
	}
	return out
}

func toAPIPreview(r *dlq.Redrive, p *dlq.Preview) *api.RedrivePreview {
	out := api.RedrivePreview{
		Matched: p.Matched, BlockedKeys: p.BlockedKeys, ByTopic: api.CountsByName{}, ByGroup: api.CountsByName{},
		ByStatus: api.CountsByName{}, Sample: []api.DeadLetter{}, Overlaps: []api.RedriveOverlap{},
	}
	for topic, n := range p.ByTopic {
		out.ByTopic[topic] = n
	}
	for group, n := range p.ByGroup {
		out.ByGroup[group] = n
	}
	for status, n := range p.ByStatus {
		out.ByStatus[string(status)] = n
	}
	for i := range p.Overlaps {
		o := &p.Overlaps[i]
		out.Overlaps = append(out.Overlaps, api.RedriveOverlap{
			RedriveID: o.Other.ID, State: api.RedriveState(o.Other.State), Action: api.RedriveAction(o.Other.Action),
			ScheduledFor: o.Other.ScheduledFor, Letters: o.Letters, Skipped: r.Yields(&o.Other),
		})
	}
	return &out
}

// bulk is a request for a redrive.
type bulk struct {
	redrive dlq.Redrive
	asked   dlq.RedriveRequest
	dryRun  bool
	key     *string // Idempotency-Key

	wait     time.Duration // how long to wait for the end of the redrive
	honoured string        // the preference that the response honours by waiting
}
