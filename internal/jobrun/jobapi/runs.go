package jobapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/longpoll"
	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/strictjson"
)

const (
	verbRun      = "run"
	verbReassign = "reassign"
	verbRerun    = "rerun"
)

// jobsNow returns the time that decides which runs are due and which slots definitions have. If the
// clock of a node that is ahead were used, a run requested for now would have to wait.
func (s *Handlers) jobsNow(ctx context.Context) (time.Time, error) {
	if s.StoreNow == nil {
		return s.Now(), nil
	}
	return s.StoreNow(ctx)
}

func (s *Handlers) jobMoment(ctx context.Context) (jobrun.Moment, error) {
	now, err := s.jobsNow(ctx)
	return jobrun.Moment{Now: now, Jitter: loop.Chance(), NewID: s.NewID}, err
}

// didRun returns the action record for a run.
func (s *Handlers) didRun(ctx context.Context, id uuid.UUID, verb, reason string,
	detail map[string]any) operator.Action {
	return s.Did(ctx, s.Now(), operator.JobRun, id.String(), verb, reason, detail)
}

// CreateJobRun starts a run of a definition.
func (s *Handlers) CreateJobRun(client context.Context, in api.CreateJobRunRequestObject) (api.Response, error) {
	wait, honoured, err := s.WaitOf(in.Params.Wait, in.Params.Prefer)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.Promised(client)
	defer cancel()
	d, err := s.definitionAt(ctx, in.Definition, nil)
	if err != nil {
		return nil, err
	}
	b := in.Body
	if b == nil {
		b = &api.JobRunInput{}
	}
	var labels map[string]string
	if b.Labels != nil {
		labels = *b.Labels
	}
	a := jobrun.Request{
		Trigger: jobrun.ByHand, Args: httpkit.UnlessNull(b.Args), Labels: labels, Immediate: b.RespectConcurrency != nil &&
			!*b.RespectConcurrency,
		CorrelationID: httpkit.Text(b.CorrelationID),
	}
	if in.Params.Traceparent != nil {
		trace, _ := httpkit.TraceOf(*in.Params.Traceparent)
		a.TraceID = httpkit.Text(trace)
	}
	a.TraceState, a.Baggage = httpkit.Text(in.Params.Tracestate), httpkit.Text(in.Params.Baggage) // httpkit.CleanTrace
	if b.ScheduledFor != nil {
		if a.ScheduledFor, err = httpkit.TimeOf("scheduled_for", b.ScheduledFor); err != nil {
			return nil, httpkit.SchemaFault(fault.Field{Pointer: "/scheduled_for", Code: "invalid", Message: "must be in the years 1970 to 9999"})
		}
		a.ScheduledFor = a.ScheduledFor.Truncate(time.Microsecond)
	}
	if b.Priority != nil {
		a.Priority = new(*b.Priority)
	}
	if err := jobrun.CheckLabels("/labels", labels); err != nil {
		return nil, err
	}
	r, replayed, err := s.startRun(ctx, &d, a, in.Params.IdempotencyKey, verbRun, httpkit.Text(b.Reason))
	switch {
	case err != nil:
		return nil, err
	case httpkit.DryRun(ctx):
		return wouldStart(&r), nil
	}
	return s.started(client, &r, replayed, wait, honoured)
}

// startRun stores a requested run of d, or finds the run that an earlier attempt of the same
// request created. A dry run stores nothing. Faults: Invalid; Conflict (CodeForbidden).
func (s *Handlers) startRun(ctx context.Context, d *jobrun.Definition, a jobrun.Request, key *string, verb,
	reason string) (stored jobrun.Run, replayed bool, err error) {
	if d.Unreadable {
		return stored, false, d.Damaged()
	}
	schema, err := jobrun.ParseSchema(d.Spec.ArgsSchema)
	if err != nil {
		return stored, false, err
	}
	if err := schema.Check("/args", d.Spec.Data(a.Args)); err != nil {
		return stored, false, err
	}
	if err := s.mayRun(ctx, d, a.Args); err != nil {
		return stored, false, err
	}
	settings, err := s.Settings.Settings(ctx)
	if err != nil {
		return stored, false, err
	}
	m, err := s.jobMoment(ctx)
	if err != nil {
		return stored, false, err
	}
	req := httpkit.RequestOf(ctx)
	a.ID, a.By, a.As = m.NewID(), req.Principal, string(req.Who.Role)
	a.Key = jobrun.ManualKey(a.ID.String())
	if key != nil {
		a.Key = jobrun.ManualKey(keyOfRun(req, verb, *key))
	}
	r := jobrun.New(d, a, settings, m)
	if httpkit.DryRun(ctx) {
		return r, false, s.Runs.MayCreate(ctx, &r)
	}
	detail := map[string]any{"definition_id": d.ID, "definition": d.Name}
	if a.RetryOfRunID != uuid.Nil {
		detail["rerun_of"] = a.RetryOfRunID
	}
	stored, created, err := s.Runs.Create(ctx, r, s.didRun(ctx, r.ID, verb, reason, detail))
	if err == nil && !created && !askedTheSame(&stored, &r, a.ScheduledFor) {
		err = idempotency.Used()
	}
	return stored, !created, err
}

// started responds to the request that started r, now or in an earlier attempt. If requested, it
// waits for the end of r as long as the client stays connected.
func (s *Handlers) started(client context.Context, r *jobrun.Run, replayed bool, wait time.Duration,
	honoured string) (httpkit.Answer, error) {
	if wait > 0 {
		ended, waited, err := s.awaitRun(client, r.ID, wait, r)
		if err != nil {
			return httpkit.Answer{}, err
		}
		if r = &ended; !waited {
			honoured = ""
		}
	}
	out := s.runAnswer(r)
	out.Location, out.Replayed, out.Waited = runPath(r.ID), replayed, honoured
	if !replayed {
		out.Status = http.StatusCreated
	}
	return out, nil
}

// mayRun returns nil if the caller has the permissions required by a run of d with these arguments;
// nil means the default arguments. Fault: Forbidden.
func (s *Handlers) mayRun(ctx context.Context, d *jobrun.Definition, args json.RawMessage) error {
	beyond := jobrun.Beyond(d.Spec.CommandName, d.Spec.Data(args), s.MaxLetters)
	need, asked := principal.ForJob(d.Spec.CommandName, beyond)
	who := httpkit.RequestOf(ctx).Who
	if !asked || who.Role.Allows(need) {
		return nil
	}
	if beyond {
		return fault.New(fault.Forbidden, principal.CodeForbidden,
			"without the permission %s, a run of %s may retry at most %d letters: set max_messages", need, d.Name, s.MaxLetters)
	}
	return fault.New(fault.Forbidden, principal.CodeForbidden, "running %s requires the permission %s, as does the operation that it performs; this credential has the role %s", d.Name, need, who.Role)
}

// keyOfRun returns the idempotency key of a run for a principal's Idempotency-Key, short enough to
// be stored. It does not contain the definition. A request for another definition with the same key
// is therefore a different request, and is refused.
func keyOfRun(req *httpkit.Request, verb, key string) string {
	if k := verb + ":" + req.Principal + ":" + key; len(k) <= 300 {
		return k
	}
	sum := sha256.Sum256([]byte(req.Principal + "\n" + key))
	return verb + ":" + hex.EncodeToString(sum[:])
}

// askedTheSame reports whether the current request asks for the run that was created with its
// Idempotency-Key. If the request omits a time, the time of the first request applies.
func askedTheSame(stored, asked *jobrun.Run, scheduled time.Time) bool {
	return stored.DefinitionID == asked.DefinitionID && stored.RetryOfRunID == asked.RetryOfRunID &&
		stored.Trigger == asked.Trigger &&
		(stored.SpecVersion != asked.SpecVersion || stored.Priority == asked.Priority &&
			slices.Equal(stored.Labels, asked.Labels) &&
			(stored.ConcurrencyKey == "") == (asked.ConcurrencyKey == "") && sameJSON(stored.Args, asked.Args)) &&
		stored.CorrelationID == asked.CorrelationID && (scheduled.IsZero() || stored.ScheduledFor.Equal(asked.ScheduledFor))
}

// sameJSON compares a stored document, which may contain white space, with a canonical one.
func sameJSON(stored, canonical json.RawMessage) bool {
	if stored == nil || canonical == nil {
		return (stored == nil) == (canonical == nil)
	}
	return strictjson.Same(stored, canonical)
}

// GetJobRun returns a run. If the client asks to wait for the end of the run, it responds after
// that.
func (s *Handlers) GetJobRun(ctx context.Context, in api.GetJobRunRequestObject) (api.Response, error) {
	wait, honoured, err := s.WaitOf(in.Params.Wait, in.Params.Prefer)
	if err != nil {
		return nil, err
	}
	r, waited, err := s.awaitRun(ctx, in.RunID, wait, nil)
	if err != nil {
		return nil, err
	}
	a := s.runAnswer(&r)
	if in.Params.View != nil && *in.Params.View == "basic" {
		a.Body = toAPIRun(&r, false)
	}
	if waited {
		a.Waited = honoured
	}
	if !r.State.Terminal() {
		return a, nil // its progress changes without a new version
	}
	return a.Unchanged(in.Params.IfNoneMatch)
}

func (s *Handlers) readRun(ctx context.Context, id uuid.UUID) (jobrun.Run, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	return s.Runs.Run(ctx, httpkit.RequestOf(ctx).Tenant.ID, id)
}

// awaitRun is httpkit.AwaitBy for runs.
func (s *Handlers) awaitRun(ctx context.Context, id uuid.UUID, wait time.Duration,
	first *jobrun.Run) (r jobrun.Run, waited bool, err error) {
	of := longpoll.Key{Kind: longpoll.JobRun, Tenant: httpkit.RequestOf(ctx).Tenant.ID, ID: id}
	return httpkit.AwaitBy(ctx, s.Kit, of, wait, first, func(r *jobrun.Run) bool { return r.State.Terminal() },
		func(ctx context.Context) (jobrun.Run, error) { return s.readRun(ctx, id) })
}

func (s *Handlers) runAnswer(r *jobrun.Run) httpkit.Answer {
	return httpkit.Answer{Status: http.StatusOK, Body: toAPIRun(r, true), ETag: httpkit.ETagOf(r.Version)}
}

// CancelJobRun ends a run, or asks its worker to stop it.
func (s *Handlers) CancelJobRun(ctx context.Context, in api.CancelJobRunRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	force, reason, err := forceOf(in.Body)
	if err != nil {
		return nil, err
	}
	if httpkit.DryRun(ctx) {
		return s.runWould(ctx, in.RunID, jobrun.CancelRequested{
			Actor: httpkit.RequestOf(ctx).Principal, Reason: reason, Force: force,
		})
	}
	by := s.didRun(ctx, in.RunID, httpkit.VerbCancel, reason, map[string]any{"force": force})
	r, err := s.Runs.Cancel(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.RunID, force, by)
	if err != nil {
		return nil, err
	}
	a := s.runAnswer(&r)
	if !r.State.Terminal() {
		a.Status = http.StatusAccepted
	}
	return a, nil
}

// wouldStart responds to a dry run with the run that would be created.
func wouldStart(r *jobrun.Run) httpkit.Answer {
	body := toAPIRun(r, true)
	body.Changes = httpkit.Planned(jobrun.NewRun)
	return httpkit.Answer{Status: http.StatusOK, Body: body}
}

// runWould responds to a dry run with the run as an event would leave it.
func (s *Handlers) runWould(ctx context.Context, id uuid.UUID, in jobrun.Event) (api.Response, error) {
	r, err := s.Runs.Run(ctx, httpkit.RequestOf(ctx).Tenant.ID, id)
	if err != nil {
		return nil, err
	}
	now, err := s.jobsNow(ctx)
	if err != nil {
		return nil, err
	}
	after, err := jobrun.WouldBe(&r, in, now)
	if err != nil {
		return nil, err
	}
	is := httpkit.Answer{Status: http.StatusOK, Body: toAPIRun(&r, false), ETag: httpkit.ETagOf(r.Version)}
	return httpkit.Would(is, toAPIRun(&after, false), func(r *api.JobRun) **api.PlannedChanges { return &r.Changes })
}

// ReassignJobRun takes a run from its worker, so that another worker can claim it.
func (s *Handlers) ReassignJobRun(ctx context.Context, in api.ReassignJobRunRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	force, reason, err := forceOf(in.Body)
	if err != nil {
		return nil, err
	}
	if httpkit.DryRun(ctx) {
		return s.runWould(ctx, in.RunID, jobrun.ReassignRequested{
			Actor: httpkit.RequestOf(ctx).Principal, Reason: reason, Force: force,
		})
	}
	by := s.didRun(ctx, in.RunID, verbReassign, reason, map[string]any{"force": force})
	r, err := s.Runs.Reassign(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.RunID, force, by)
	if err != nil {
		return nil, err
	}
	return s.runAnswer(&r), nil
}

// forceOf returns force and its reason. If force has no reason, the fault is the same as for a
// violation of the schema.
func forceOf(b *api.JobForceInput) (force bool, reason string, err error) {
	if b == nil {
		return false, "", nil
	}
	force, reason = b.Force != nil && *b.Force, httpkit.Text(b.Reason)
	if force {
		err = httpkit.RequireReason(reason, "force does not wait for the worker, which may still be running")
	}
	return force, reason, err
}

// RerunJobRun starts a run that repeats an ended one.
func (s *Handlers) RerunJobRun(client context.Context, in api.RerunJobRunRequestObject) (api.Response, error) {
	wait, honoured, err := s.WaitOf(in.Params.Wait, in.Params.Prefer)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.Promised(client)
	defer cancel()
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	r, err := s.Runs.Run(ctx, tenant, in.RunID)
	if err != nil {
		return nil, err
	}
	if !r.State.Terminal() {
		return nil, r.Conflict("rerun before it has ended")
	}
	d, err := s.Definitions.Definition(ctx, tenant, r.DefinitionID.String())
	if err == nil && d.DeletedAt != nil {
		err = fault.New(fault.NotFound, jobrun.CodeNotFound, "the job definition %s of the run has been deleted", d.Name)
	}
	if err != nil {
		return nil, err
	}
	b := in.Body
	if b == nil {
		b = &api.JobRerunInput{}
	}
	a := jobrun.RerunRequest(&r)
	if args := httpkit.UnlessNull(b.Args); args != nil {
		a.Args = args
	}
	a.Immediate = b.RespectConcurrency != nil && !*b.RespectConcurrency
	again, replayed, err := s.startRun(ctx, &d, a, in.Params.IdempotencyKey, verbRerun, httpkit.Text(b.Reason))
	switch {
	case err != nil:
		return nil, err
	case httpkit.DryRun(ctx):
		return wouldStart(&again), nil
	}
	return s.started(client, &again, replayed, wait, honoured)
}
