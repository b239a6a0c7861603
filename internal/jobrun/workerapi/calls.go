package workerapi

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

// call is one call about one run.
type call struct {
	jobrun.RunFence
	tenant uuid.UUID
	texts  plaintext.Members // texts that were repaired or cut
}

// one responds to a call about one run. The call must be authorized. It continues even if the
// client disconnects.
func (s *Handlers) one(ctx context.Context, run uuid.UUID, fence jobrun.Fence,
	do func(context.Context, *call) (any, error)) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	if err := s.bound(ctx, fence.WorkerID); err != nil {
		return nil, err
	}
	body, err := do(ctx, &call{
		RunFence: jobrun.RunFence{RunID: run, Fence: fence}, tenant: httpkit.RequestOf(ctx).Tenant.ID,
	})
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: body}, nil
}

// adjusted returns the pointers of the texts in a body that were repaired or cut.
func adjusted(ctx context.Context, cut *plaintext.Members) []string {
	return httpkit.Merged(httpkit.RequestOf(ctx).Adjusted, cut.Changed)
}

// runLease returns the length of a run's lease in milliseconds, which the worker counts from its
// request.
func (s *Handlers) runLease(ctx context.Context) (int64, error) {
	settings, err := s.Current(ctx)
	return settings.Seconds(jobrun.RunLease).Milliseconds(), err
}

// StartRun makes a run RUNNING (W4, J-25). If it is refused, the worker must not execute the run
// (J-26).
func (s *Handlers) StartRun(ctx context.Context, in api.StartRunRequestObject) (api.Response, error) {
	b := in.Body
	fence := fenceOf(b.WorkerID, b.Attempt, b.LeaseToken, b.LeaderEpoch)
	return s.one(ctx, in.RunID, fence, func(ctx context.Context, c *call) (any, error) {
		lease, err := s.runLease(ctx)
		if err != nil {
			return nil, err
		}
		done, err := s.Start(ctx, c.tenant, c.RunFence)
		if err = cmp.Or(err, done.Err); err != nil {
			return nil, err
		}
		r := &done.Run
		return api.StartedRun{
			RunID: in.RunID, State: api.JobRunState(r.State), Version: r.Version, StartedAt: r.StartedAt,
			LeaseExpiresAt: r.LeaseExpiresAt, LeaseMS: lease,
			Replayed:        httpkit.UnlessFalse(done.Replayed),
			CancelRequested: httpkit.UnlessFalse(r.CancelRequestedAt != nil),
		}, nil
	})
}

// ReportProgress stores the progress and checkpoint of a run (W5).
func (s *Handlers) ReportProgress(ctx context.Context, in api.ReportProgressRequestObject) (api.Response, error) {
	b := in.Body
	fence := fenceOf(b.WorkerID, b.Attempt, b.LeaseToken, b.LeaderEpoch)
	return s.one(ctx, in.RunID, fence, func(ctx context.Context, c *call) (any, error) {
		beat := jobrun.Beat{RunID: c.RunID, Fence: c.Fence, Checkpoint: httpkit.UnlessNull(b.Checkpoint)}
		if b.Percent != nil || b.Message != nil || b.Counters != nil {
			told := jobrun.Progress{Percent: b.Percent, Message: httpkit.Text(b.Message), Counters: b.Counters}
			beat.Progress = told.Storable("", &c.texts)
		}
		lease, err := s.runLease(ctx)
		if err != nil {
			return nil, err
		}
		r, err := s.Work.Progress(ctx, c.tenant, beat)
		if err != nil {
			return nil, err
		}
		out := api.RunLease{RunID: in.RunID, LeaseExpiresAt: r.LeaseExpiresAt, LeaseMS: lease,
			CancelRequested: r.CancelRequestedAt != nil, Adjusted: adjusted(ctx, &c.texts)}
		if out.CancelRequested {
			out.CancelReason = httpkit.UnlessEmpty(r.CancelReason)
		}
		return out, nil
	})
}

// AppendRunLog stores a chunk of a log (W6).
func (s *Handlers) AppendRunLog(ctx context.Context, in api.AppendRunLogRequestObject) (api.Response, error) {
	b := in.Body
	fence := fenceOf(b.WorkerID, b.Attempt, b.LeaseToken, b.LeaderEpoch)
	return s.one(ctx, in.RunID, fence, func(ctx context.Context, c *call) (any, error) {
		chunk, err := chunkOf(b)
		if err != nil {
			return nil, err
		}
		next, err := s.Work.AppendLog(ctx, c.tenant, c.RunID, c.Fence, chunk)
		if err != nil {
			return nil, err
		}
		//nolint:gosec // counts chunks
		return api.LogAppendResult{NextSeq: int32(next), Adjusted: adjusted(ctx, &c.texts)}, nil
	})
}

// chunkOf decodes a chunk of a log.
func chunkOf(b *api.LogInput) (jobrun.LogChunk, error) {
	c := jobrun.LogChunk{LogPosition: jobrun.LogPosition{Attempt: int(b.Attempt), Seq: int(b.Seq)}, Stream: "stdout"}
	if b.Stream != nil {
		c.Stream = *b.Stream
	}
	if b.Chunk != nil {
		c.Body = []byte(*b.Chunk)
	} else { // the contract requires one of the two
		raw, err := base64.StdEncoding.Strict().DecodeString(*b.ChunkBase64)
		if err != nil {
			return c, httpkit.SchemaFault(fault.Field{Pointer: "/chunk_base64", Code: "invalid", Message: "is not base64"})
		}
		c.Body = raw
	}
	if len(c.Body) == 0 || len(c.Body) > jobrun.MaxLogChunk {
		return c, httpkit.SchemaFault(fault.Field{Pointer: "/chunk", Code: "maxLength",
			Message: fmt.Sprintf("must have 1 to %d bytes", jobrun.MaxLogChunk)})
	}
	return c, nil
}

// CompleteRun ends a run that has succeeded (W7).
func (s *Handlers) CompleteRun(ctx context.Context, in api.CompleteRunRequestObject) (api.Response, error) {
	b := in.Body
	fence := fenceOf(b.WorkerID, b.Attempt, b.LeaseToken, b.LeaderEpoch)
	return s.one(ctx, in.RunID, fence, func(ctx context.Context, c *call) (any, error) {
		res := jobrun.Result{
			Value: httpkit.UnlessNull(b.Result), ExitCode: httpkit.AsInt(b.ExitCode), Resources: resourcesOf(b.Resources),
		}
		var wrong fault.Mistakes
		if res.Emit = emittedOf(b.Emit, &wrong); wrong != nil {
			return nil, httpkit.SchemaFault(wrong...)
		}
		if err := mayEmit(ctx, &res); err != nil {
			return nil, err
		}
		return s.finish(ctx, c, res)
	})
}

// FailRun ends a run that has failed (W8).
func (s *Handlers) FailRun(ctx context.Context, in api.FailRunRequestObject) (api.Response, error) {
	b := in.Body
	fence := fenceOf(b.WorkerID, b.Attempt, b.LeaseToken, b.LeaderEpoch)
	return s.one(ctx, in.RunID, fence, func(ctx context.Context, c *call) (any, error) {
		return s.finish(ctx, c, jobrun.Result{
			Error: runErrorOf(&b.Error, &c.texts), TimedOut: b.TimedOut != nil && *b.TimedOut,
			ExitCode: httpkit.AsInt(b.ExitCode), Resources: resourcesOf(b.Resources),
		})
	})
}

// finish ends a run with its result.
func (s *Handlers) finish(ctx context.Context, c *call, res jobrun.Result) (any, error) {
	res.TenantID, res.RunID, res.Fence = c.tenant, c.RunID, c.Fence
	var wrong fault.Mistakes
	if checkResult(&res, &wrong); wrong != nil {
		return nil, httpkit.SchemaFault(wrong...)
	}
	done, err := s.Finish(ctx, res)
	return ended(ctx, c, done, cmp.Or(err, done.Err))
}

// ended responds to a call that ends an attempt.
func ended(ctx context.Context, c *call, done jobrun.Done, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	out := toRunEnded(&done.Run)
	out.Adjusted = adjusted(ctx, &c.texts)
	out.Replayed, out.RetryRunID, out.RetryAt, out.DlqMessageID = httpkit.UnlessFalse(done.Replayed),
		httpkit.UnlessNil(done.RetryID), done.RetryAt, httpkit.UnlessNil(done.LetterID)
	return out, nil
}

func toRunEnded(r *jobrun.Run) api.EndedRun {
	//nolint:gosec // counts assignments
	return api.EndedRun{RunID: r.ID, State: api.JobRunState(r.State), Version: r.Version, Attempt: int32(r.Attempt),
		FinishedAt: r.FinishedAt}
}

// mayEmit returns nil if the caller may publish what the result emits. Fault: Forbidden.
func mayEmit(ctx context.Context, r *jobrun.Result) error {
	who := &httpkit.RequestOf(ctx).Who
	if len(r.Emit) == 0 || who.Role.Allows(principal.JobsWrite) {
		return nil
	}
	return fault.New(fault.Forbidden, principal.CodeForbidden,
		"emit publishes events and creates runs, which requires the permission %s; this credential has the role %s", principal.JobsWrite, who.Role)
}

// ReleaseRun releases a run, so that it can be claimed again (W9).
func (s *Handlers) ReleaseRun(ctx context.Context, in api.ReleaseRunRequestObject) (api.Response, error) {
	b := in.Body
	fence := fenceOf(b.WorkerID, b.Attempt, b.LeaseToken, b.LeaderEpoch)
	return s.one(ctx, in.RunID, fence, func(ctx context.Context, c *call) (any, error) {
		done, err := s.Work.Release(ctx, c.tenant, c.RunID, c.Fence, jobrun.Released{
			Reason:    c.texts.Storable("/reason", httpkit.Text(b.Reason), plaintext.Characters(jobrun.MaxReason)),
			LeaseLost: b.LeaseLost != nil && *b.LeaseLost,
		})
		return ended(ctx, c, done, err)
	})
}

// AcknowledgeCancel ends a run whose cancel was requested (W10).
func (s *Handlers) AcknowledgeCancel(ctx context.Context, in api.AcknowledgeCancelRequestObject) (api.Response, error) {
	b := in.Body
	fence := fenceOf(b.WorkerID, b.Attempt, b.LeaseToken, b.LeaderEpoch)
	return s.one(ctx, in.RunID, fence, func(ctx context.Context, c *call) (any, error) {
		done, err := s.Work.AckCancel(ctx, c.tenant, c.RunID, c.Fence)
		return ended(ctx, c, done, err)
	})
}

// ConfirmContinuation ends the doubt about a run (W11).
func (s *Handlers) ConfirmContinuation(ctx context.Context,
	in api.ConfirmContinuationRequestObject) (api.Response, error) {
	b := in.Body
	fence := fenceOf(b.WorkerID, b.Attempt, b.LeaseToken, b.LeaderEpoch)
	return s.one(ctx, in.RunID, fence, func(ctx context.Context, c *call) (any, error) {
		lease, err := s.runLease(ctx)
		if err != nil {
			return nil, err
		}
		r, err := s.Work.Confirm(ctx, c.tenant, c.RunID, c.Fence)
		if err != nil {
			return nil, err
		}
		return api.RunConfirmation{
			RunID: in.RunID, Continue: true, LeaseExpiresAt: r.LeaseExpiresAt, LeaseMS: lease,
			CancelRequested: httpkit.UnlessFalse(r.CancelRequestedAt != nil),
		}, nil
	})
}
