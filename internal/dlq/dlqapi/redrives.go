package dlqapi

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/principal"
)

// retryAllWait is the default wait time of retry-all.
const retryAllWait = 10 * time.Second

// CreateRedrive stores a bulk redrive, or previews it.
func (s *Handlers) CreateRedrive(ctx context.Context, in api.CreateRedriveRequestObject) (api.Response, error) {
	wait, honoured, err := s.WaitOf(in.Params.Wait, in.Params.Prefer)
	if err != nil {
		return nil, err
	}
	b, err := redriveAsked(ctx, in.Body)
	if err != nil {
		return nil, err
	}
	b.key, b.wait, b.honoured = in.Params.IdempotencyKey, wait, honoured
	return s.redrive(ctx, b)
}

// RetryDeadLetterGroup retries the letters of a group.
func (s *Handlers) RetryDeadLetterGroup(ctx context.Context,
	in api.RetryDeadLetterGroupRequestObject) (api.Response, error) {
	b := in.Body
	if b == nil {
		b = &api.GroupRedriveInput{}
	}
	asked, err := redriveAsked(ctx, &api.RedriveInput{
		Action: api.RedriveAction(dlq.BulkRetry), Filter: &api.DeadLetterFilter{Fingerprint: &in.Fingerprint},
		MaxMessages:   b.MaxMessages,
		RatePerSecond: b.RatePerSecond, Order: b.Order, Force: b.Force, Canary: b.Canary, StopOn: b.StopOn, DryRun: b.DryRun,
		Expected: b.Expected, Reason: b.Reason,
	})
	if err != nil {
		return nil, err
	}
	asked.key = in.Params.IdempotencyKey
	return s.redriveGroup(ctx, in.Fingerprint, asked)
}

// DiscardDeadLetterGroup discards the letters of a group.
func (s *Handlers) DiscardDeadLetterGroup(ctx context.Context,
	in api.DiscardDeadLetterGroupRequestObject) (api.Response, error) {
	b := in.Body
	asked, err := redriveAsked(ctx, &api.RedriveInput{
		Action: api.RedriveAction(dlq.BulkDiscard), Filter: &api.DeadLetterFilter{Fingerprint: &in.Fingerprint},
		MaxMessages:   b.MaxMessages,
		RatePerSecond: b.RatePerSecond, DryRun: b.DryRun, Expected: b.Expected, Reason: &b.Reason,
	})
	if err != nil {
		return nil, err
	}
	asked.key = in.Params.IdempotencyKey
	return s.redriveGroup(ctx, in.Fingerprint, asked)
}

func (s *Handlers) redriveGroup(ctx context.Context, fingerprint string, asked bulk) (httpkit.Answer, error) {
	if _, err := s.Overview.Group(ctx, httpkit.RequestOf(ctx).Tenant.ID, fingerprint); err != nil {
		return httpkit.Answer{}, err
	}
	return s.redrive(ctx, asked)
}

// RetryAllDeadLetters retries the waiting letters of a topic and waits until the redrive ends.
func (s *Handlers) RetryAllDeadLetters(ctx context.Context,
	in api.RetryAllDeadLettersRequestObject) (api.Response, error) {
	wait, honoured, err := s.WaitOf(in.Params.Wait, in.Params.Prefer)
	if err != nil {
		return nil, err
	}
	if in.Params.Wait == nil && honoured == "" {
		wait = min(retryAllWait, s.Limits.MaxWait)
	}
	b := in.Body
	if b == nil {
		b = &api.RetryAllInput{}
	}
	asked, err := redriveAsked(ctx, &api.RedriveInput{
		Action: api.RedriveAction(dlq.BulkRetry), Filter: &api.DeadLetterFilter{Topic: &in.Topic}, MaxMessages: b.MaxMessages,
		RatePerSecond: b.RatePerSecond, DryRun: b.DryRun, Expected: b.Expected, Reason: b.Reason,
	})
	if err != nil {
		return nil, err
	}
	// The body is optional for compatibility. Without it, the audit trail records only who retried
	// and when.
	asked.key, asked.asked = in.Params.IdempotencyKey, dlq.RedriveRequest{All: asked.redrive.Filter.Empty(),
		Unexplained: true}
	r, err := s.newRedrive(ctx, asked)
	if err == nil {
		err = s.knownTopic(ctx, r.TenantID, in.Topic)
	}
	if err != nil {
		return nil, err
	}
	if asked.dryRun {
		p, err := s.preview(ctx, r)
		if err != nil {
			return nil, err
		}
		return httpkit.Answer{Status: http.StatusOK,
			Body: api.RetryAllResult{Message: numbered(p.Matched, "letter") + " would be retried", Preview: p}}, nil
	}
	r, replayed, err := s.storeRedrive(ctx, r, httpkit.RequestOf(ctx).Who)
	waited := false
	if err == nil {
		r, waited, err = s.awaitRedrive(ctx, endOf(&r), wait, &r)
	}
	if err != nil {
		return nil, err
	}
	out := httpkit.Answer{Status: http.StatusAccepted, Location: redrivePath(r.ID), Replayed: replayed}
	if waited {
		out.Waited = honoured
	}
	message := fmt.Sprintf("%d of %s retried so far; the redrive continues", r.Done, numbered(r.Matched, "letter"))
	if r.State.Over() {
		out.Status, out.Location = http.StatusOK, ""
		message = fmt.Sprintf("%d of %s retried, %d failed, %d skipped; the redrive is %s", r.Done, numbered(r.Matched, "letter"), r.Failed, r.Skipped, r.State)
	}
	out.Body = api.RetryAllResult{RetriedCount: r.Done, Message: message, Redrive: new(toAPIRedrive(&r, s.Now()))}
	return out, nil
}

// redrive handles a request for a redrive. It returns a preview or the stored redrive.
func (s *Handlers) redrive(ctx context.Context, asked bulk) (httpkit.Answer, error) {
	r, err := s.newRedrive(ctx, asked)
	if err != nil {
		return httpkit.Answer{}, err
	}
	if asked.dryRun {
		p, err := s.preview(ctx, r)
		return httpkit.Answer{Status: http.StatusOK, Body: p}, err
	}
	who := httpkit.RequestOf(ctx).Who
	if r.NeedsAdmin(s.RedriveLimits.Bulk) {
		if err := who.Require(principal.DLQAdmin); err != nil {
			return httpkit.Answer{}, s.tooMuch(&r)
		}
	}
	unknown, err := s.unknownIDs(ctx, &r) // before anything can be deleted
	if err != nil {
		return httpkit.Answer{}, err
	}
	r, replayed, err := s.storeRedrive(ctx, r, who)
	waited := false
	if err == nil && asked.wait > 0 {
		r, waited, err = s.awaitRedrive(ctx, endOf(&r), asked.wait, &r)
	}
	if err != nil {
		return httpkit.Answer{}, err
	}
	if !waited {
		asked.honoured = ""
	}
	shown := toAPIRedrive(&r, s.Now())
	shown.UnknownIds = unknown
	return httpkit.Answer{
		Status: http.StatusAccepted, Body: shown, ETag: httpkit.ETagOf(r.Version), Location: redrivePath(r.ID),
		Replayed: replayed, Waited: asked.honoured,
	}, nil
}

// tooMuch returns the reason why an operator may not create a redrive of this size.
func (s *Handlers) tooMuch(r *dlq.Redrive) error {
	if r.Action == dlq.BulkDelete || r.Action == dlq.BulkRequeue {
		return fault.New(fault.Forbidden, principal.CodeForbidden, "a bulk %s requires the permission %s", r.Action, principal.DLQAdmin)
	}
	return fault.New(fault.Forbidden, principal.CodeForbidden,
		"without the permission %s, a redrive may cover at most %s: set max_messages or list fewer ids", principal.DLQAdmin, numbered(s.RedriveLimits.Bulk, "letter"))
}

// newRedrive creates the requested redrive; the store adds the remaining fields. Faults: those of
// the rules; Unavailable without letters.
func (s *Handlers) newRedrive(ctx context.Context, asked bulk) (dlq.Redrive, error) {
	req := httpkit.RequestOf(ctx)
	r := asked.redrive
	r.TenantID, r.Actor, r.ActorName = req.Tenant.ID, req.Principal, req.Who.Name
	id := s.NewID()
	if key := httpkit.KeyOf(req, asked.key); key != nil {
		id, r.RequestHash = redriveID(req, key.Key), key.Hash
	}
	r, err := dlq.NewRedrive(r, asked.asked, id, s.RedriveLimits, s.Now())
	if err == nil && r.Target != nil {
		err = s.mayTarget(ctx, &r)
	}
	return r, err
}

// redriveID derives the id of a redrive, a UUIDv8, from an Idempotency-Key, so that a second
// request with the same key finds the first redrive on any node.
func redriveID(req *httpkit.Request, key string) uuid.UUID {
	sum := sha256.Sum256([]byte("redrive\n" + req.Tenant.ID.String() + "\n" + req.Principal + "\n" +
		req.Route + "\n" + key))
	id := uuid.UUID(sum[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return id
}

// mayTarget returns an error if the letters certainly must not be sent to a target: letters of
// several topics are checked when each is sent. Fault: Invalid with dlq.CodeTarget.
func (s *Handlers) mayTarget(ctx context.Context, r *dlq.Redrive) error {
	switch t := r.Target; {
	case t.Kind == dlq.ToHTTP:
		if reason := s.CheckEndpoint(t.URL); reason != "" {
			return notAllowed("/target/url", reason)
		}
	case s.Routes.Forbids(t.Topic):
		return notAllowed("/target/topic", dlq.ReadAsDeadLetters)
	}
	if r.Filter == nil || !r.Filter.Exact() {
		return nil
	}
	p, err := s.PolicyOf(ctx, r.TenantID, r.Filter.Topic)
	if err != nil || p.AllowsTarget(r.Filter.Topic, r.Target) {
		return err
	}
	return notAllowed("/target", "must be one of the policy's allowed_targets")
}

// storeRedrive stores a redrive or finds the one that the same request created earlier. Fault:
// Invalid with idempotency.CodeUsed if the Idempotency-Key was used for a different request.
func (s *Handlers) storeRedrive(ctx context.Context, r dlq.Redrive,
	who principal.Principal) (stored dlq.Redrive, replayed bool, err error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	by := s.Did(ctx, r.CreatedAt, operator.Redrive, r.ID.String(), httpkit.VerbCreate, r.Reason, redriveDetail(&r))
	switch made, err := s.Redrives.Create(ctx, r, by); {
	case err == nil:
		s.WakeRedrives()
		return made, false, nil
	case !fault.IsCode(err, dlq.CodeRedriveExists):
		return r, false, err
	}
	there, err := s.Redrives.Get(ctx, r.TenantID, r.ID)
	if err == nil && string(there.RequestHash) != string(r.RequestHash) {
		err = idempotency.Used()
	}
	return there, err == nil, err
}

// preview counts the letters that a redrive would apply to.
func (s *Handlers) preview(ctx context.Context, r dlq.Redrive) (*api.RedrivePreview, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	p, err := s.Redrives.Preview(ctx, r.TenantID, r)
	if err != nil {
		return nil, err
	}
	out := toAPIPreview(&r, &p)
	out.Changes = httpkit.PlannedChanges(r.Changes(p.ByStatus))
	if out.UnknownIds, err = s.unknownIDs(ctx, &r); err != nil {
		return nil, err
	}
	for i := range p.Sample {
		out.Sample = append(out.Sample, toAPILetter(&p.Sample[i], letterView{}))
	}
	return out, nil
}

// unknownIDs returns the ids in a redrive that match no letter, so that the caller notices typos
// immediately.
func (s *Handlers) unknownIDs(ctx context.Context, r *dlq.Redrive) ([]uuid.UUID, error) {
	if r.IDs == nil {
		return nil, nil
	}
	return s.Overview.Unknown(ctx, r.TenantID, r.IDs)
}

// redriveDetail returns the audit trail's detail for a new redrive, without the parts of its filter
// and transform that quote contents.
func redriveDetail(r *dlq.Redrive) map[string]any {
	out := map[string]any{"action": r.Action, "rate_per_second": r.Rate}
	if r.IDs != nil {
		out["ids"] = len(r.IDs)
	}
	if f := r.Filter; f != nil {
		for name, value := range map[string]string{"topic": f.Topic, "fingerprint": f.Fingerprint} {
			if value != "" {
				out[name] = value
			}
		}
		out["status"] = f.Statuses
	}
	if r.Max > 0 {
		out["max_messages"] = r.Max
	}
	if r.HaltsAbove != nil {
		out["expected"] = *r.HaltsAbove
	}
	for name, set := range map[string]bool{"force": r.Force, "transform": r.Transform != nil,
		"include_later": r.IncludeLater, "approval_required": r.Approval} {
		if set {
			out[name] = true
		}
	}
	if r.Target != nil {
		out["target"] = r.Target
	}
	return out
}

func redrivePath(id uuid.UUID) string { return "/api/v1/dlq/redrives/" + id.String() }
