package workerapi

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

// StartRun makes a run RUNNING (W4, J-25). After a refusal the worker must not start it
// (J-26).
func (s *Handlers) StartRun(ctx context.Context, in api.StartRunRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	b := in.Body
	if err := s.bound(ctx, b.WorkerID); err != nil {
		return nil, err
	}
	lease, err := s.runLease(ctx)
	if err != nil {
		return nil, err
	}
	done, err := s.Start(ctx, httpkit.RequestOf(ctx).Tenant.ID,
		jobrun.RunFence{RunID: in.RunID, Fence: fenceOf(b.WorkerID, b.Attempt, b.LeaseToken, b.LeaderEpoch)})
	if err == nil {
		err = done.Err
	}
	if err != nil {
		return nil, err
	}
	r := &done.Run
	out := api.StartedRun{
		RunID: in.RunID, State: api.JobRunState(r.State), Version: r.Version, StartedAt: r.StartedAt,
		LeaseExpiresAt: r.LeaseExpiresAt, LeaseMS: lease,
		Replayed: httpkit.UnlessFalse(done.Replayed), CancelRequested: httpkit.UnlessFalse(r.CancelRequestedAt != nil),
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// runLease is the length of a run's lease in milliseconds, counted by the worker from
// its request.
func (s *Handlers) runLease(ctx context.Context) (int64, error) {
	settings, err := s.Current(ctx)
	return settings.Seconds(jobrun.RunLease).Milliseconds(), err
}

// ReportProgress stores progress and checkpoint of a run (W5).
func (s *Handlers) ReportProgress(ctx context.Context, in api.ReportProgressRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	b := in.Body
	if err := s.bound(ctx, b.WorkerID); err != nil {
		return nil, err
	}
	var texts plaintext.Members
	beat := jobrun.Beat{RunID: in.RunID, Fence: fenceOf(b.WorkerID, b.Attempt, b.LeaseToken, b.LeaderEpoch),
		Checkpoint: httpkit.UnlessNull(b.Checkpoint)}
	if b.Percent != nil || b.Message != nil || b.Counters != nil {
		told := jobrun.Progress{Percent: b.Percent, Message: httpkit.Text(b.Message), Counters: b.Counters}
		beat.Progress = told.Storable("", &texts)
	}
	lease, err := s.runLease(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.Work.Progress(ctx, httpkit.RequestOf(ctx).Tenant.ID, beat)
	if err != nil {
		return nil, err
	}
	out := api.RunLease{RunID: in.RunID, LeaseExpiresAt: r.LeaseExpiresAt, LeaseMS: lease,
		CancelRequested: r.CancelRequestedAt != nil, Adjusted: adjusted(ctx, &texts)}
	if out.CancelRequested {
		out.CancelReason = httpkit.UnlessEmpty(r.CancelReason)
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// AppendRunLog stores a chunk of a log (W6).
func (s *Handlers) AppendRunLog(ctx context.Context, in api.AppendRunLogRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	b := in.Body
	if err := s.bound(ctx, b.WorkerID); err != nil {
		return nil, err
	}
	c := jobrun.LogChunk{LogPosition: jobrun.LogPosition{Attempt: int(b.Attempt), Seq: int(b.Seq)}, Stream: "stdout"}
	if b.Stream != nil {
		c.Stream = *b.Stream
	}
	if b.Chunk != nil {
		c.Body = []byte(*b.Chunk)
	} else { // the contract requires one of them
		raw, err := base64.StdEncoding.Strict().DecodeString(*b.ChunkBase64)
		if err != nil {
			return nil, httpkit.SchemaFault(fault.Field{Pointer: "/chunk_base64", Code: "invalid", Message: "is not base64"})
		}
		c.Body = raw
	}
	if len(c.Body) == 0 || len(c.Body) > jobrun.MaxLogChunk {
		return nil,
			httpkit.SchemaFault(fault.Field{Pointer: "/chunk", Code: "maxLength",
				Message: fmt.Sprintf("must have 1 to %d bytes", jobrun.MaxLogChunk)})
	}
	next, err := s.Work.AppendLog(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.RunID,
		fenceOf(b.WorkerID, b.Attempt, b.LeaseToken, b.LeaderEpoch), c)
	if err != nil {
		return nil, err
	}
	//nolint:gosec // counts chunks
	out := api.LogAppendResult{NextSeq: int32(next), Adjusted: adjusted(ctx, &plaintext.Members{})}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// adjusted returns the pointers of the texts of a body that were mended or cut.
func adjusted(ctx context.Context, cut *plaintext.Members) []string {
	return httpkit.Merged(httpkit.RequestOf(ctx).Adjusted, cut.Changed)
}

// CompleteRun ends a run that has succeeded (W7).
func (s *Handlers) CompleteRun(ctx context.Context, in api.CompleteRunRequestObject) (api.Response, error) {
	b := in.Body
	res := jobrun.Result{
		RunID: in.RunID, Fence: fenceOf(b.WorkerID, b.Attempt, b.LeaseToken, b.LeaderEpoch),
		Value: httpkit.UnlessNull(b.Result), ExitCode: httpkit.AsInt(b.ExitCode), Resources: resourcesOf(b.Resources),
	}
	var wrong fault.Mistakes
	if res.Emit = emittedOf(b.Emit, &wrong); wrong != nil {
		return nil, httpkit.SchemaFault(wrong...)
	}
	if err := mayEmit(ctx, &res); err != nil {
		return nil, err
	}
	return s.finish(ctx, res, &plaintext.Members{})
}

// FailRun ends a run that has failed (W8).
func (s *Handlers) FailRun(ctx context.Context, in api.FailRunRequestObject) (api.Response, error) {
	b := in.Body
	var texts plaintext.Members
	return s.finish(ctx, jobrun.Result{
		RunID: in.RunID, Fence: fenceOf(b.WorkerID, b.Attempt, b.LeaseToken, b.LeaderEpoch),
		Error:    runErrorOf(&b.Error, &texts),
		TimedOut: b.TimedOut != nil && *b.TimedOut, ExitCode: httpkit.AsInt(b.ExitCode), Resources: resourcesOf(b.Resources),
	}, &texts)
}

func (s *Handlers) finish(ctx context.Context, res jobrun.Result, texts *plaintext.Members) (httpkit.Answer, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	if err := s.bound(ctx, res.Fence.WorkerID); err != nil {
		return httpkit.Answer{}, err
	}
	res.TenantID = httpkit.RequestOf(ctx).Tenant.ID
	var wrong fault.Mistakes
	if checkResult(&res, &wrong); wrong != nil {
		return httpkit.Answer{}, httpkit.SchemaFault(wrong...)
	}
	done, err := s.Finish(ctx, res)
	if err == nil {
		err = done.Err
	}
	return endedAnswer(ctx, done, err, texts)
}

func endedAnswer(ctx context.Context, done jobrun.Done, err error, texts *plaintext.Members) (httpkit.Answer, error) {
	if err != nil {
		return httpkit.Answer{}, err
	}
	out := toRunEnded(&done.Run)
	out.Adjusted = adjusted(ctx, texts)
	out.Replayed, out.RetryRunID, out.RetryAt, out.DlqMessageID = httpkit.UnlessFalse(done.Replayed),
		httpkit.UnlessNil(done.RetryID), done.RetryAt, httpkit.UnlessNil(done.LetterID)
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

func toRunEnded(r *jobrun.Run) api.EndedRun {
	//nolint:gosec // counts assignments
	return api.EndedRun{RunID: r.ID, State: api.JobRunState(r.State), Version: r.Version, Attempt: int32(r.Attempt),
		FinishedAt: r.FinishedAt}
}

// mayEmit returns nil when the caller may publish what the result emits. Fault:
// Forbidden.
func mayEmit(ctx context.Context, r *jobrun.Result) error {
	who := &httpkit.RequestOf(ctx).Who
	if len(r.Emit) == 0 || who.Role.Allows(principal.JobsWrite) {
		return nil
	}
	return fault.New(fault.Forbidden, principal.CodeForbidden,
		"emit publishes events and creates runs, which needs the permission %s; the credential has the role %s", principal.JobsWrite, who.Role)
}

// ReleaseRun releases a run, so that it can be claimed again (W9).
func (s *Handlers) ReleaseRun(ctx context.Context, in api.ReleaseRunRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	b := in.Body
	if err := s.bound(ctx, b.WorkerID); err != nil {
		return nil, err
	}
	var texts plaintext.Members
	how := jobrun.Released{
		Reason:    texts.Storable("/reason", httpkit.Text(b.Reason), plaintext.Characters(jobrun.MaxReason)),
		LeaseLost: b.LeaseLost != nil && *b.LeaseLost,
	}
	done, err := s.Work.Release(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.RunID,
		fenceOf(b.WorkerID, b.Attempt, b.LeaseToken, b.LeaderEpoch), how)
	return endedAnswer(ctx, done, err, &texts)
}

// AcknowledgeCancel ends a run that was asked to cancel (W10).
func (s *Handlers) AcknowledgeCancel(ctx context.Context, in api.AcknowledgeCancelRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	b := in.Body
	if err := s.bound(ctx, b.WorkerID); err != nil {
		return nil, err
	}
	done, err := s.Work.AckCancel(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.RunID,
		fenceOf(b.WorkerID, b.Attempt, b.LeaseToken, b.LeaderEpoch))
	return endedAnswer(ctx, done, err, &plaintext.Members{})
}

// ConfirmContinuation ends the doubt about a run (W11).
func (s *Handlers) ConfirmContinuation(ctx context.Context,
	in api.ConfirmContinuationRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	b := in.Body
	if err := s.bound(ctx, b.WorkerID); err != nil {
		return nil, err
	}
	lease, err := s.runLease(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.Work.Confirm(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.RunID,
		fenceOf(b.WorkerID, b.Attempt, b.LeaseToken, b.LeaderEpoch))
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.RunConfirmation{
		RunID: in.RunID, Continue: true, LeaseExpiresAt: r.LeaseExpiresAt, LeaseMS: lease,
		CancelRequested: httpkit.UnlessFalse(r.CancelRequestedAt != nil),
	}}, nil
}
