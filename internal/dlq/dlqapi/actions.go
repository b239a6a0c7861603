package dlqapi

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/httpkit/dryrun"
)

// UpdateDeadLetter changes the labels, assignee and note of a letter, its next retry time and its
// maximum number of retries.
func (s *Handlers) UpdateDeadLetter(ctx context.Context, in api.UpdateDeadLetterRequestObject) (api.Response, error) {
	b := in.Body
	e := dlq.Edit{NextRetryAt: b.NextRetryAt, Labels: b.Labels, Assignee: b.Assignee, Note: b.Note}
	changed := map[string]any{}
	if b.MaxRetries != nil {
		e.MaxRetries = new(int(*b.MaxRetries))
		changed["max_retries"] = *b.MaxRetries
	}
	if b.NextRetryAt != nil {
		if y := b.NextRetryAt.UTC().Year(); y < 1970 || y > 9999 {
			return nil, httpkit.SchemaFault(fault.Field{Pointer: "/next_retry_at", Code: "invalid", Message: "must be in the years 1970 to 9999"})
		}
		changed["next_retry_at"] = b.NextRetryAt.UTC()
	}
	if b.Labels != nil {
		changed["labels"] = b.Labels
	}
	if b.Assignee != nil {
		changed["assignee"] = *b.Assignee
	}
	if b.Note != nil {
		changed["note"] = *b.Note
	}
	if len(changed) == 0 {
		return nil, httpkit.SchemaFault(fault.Field{Code: "required", Message: "must name at least one field to change"})
	}
	return s.changeLetter(ctx, in.MessageID, in.Params.IfMatch, dlq.VerbUpdate, b.Reason, changed,
		func(_ context.Context, l dlq.Letter) (dlq.Letter, error) {
			c, err := dlq.Apply(l, dlq.EditRequested{Edit: e}, s.moment())
			return c.After, err
		})
}

// RequeueDeadLetter makes a DEAD letter due again.
func (s *Handlers) RequeueDeadLetter(ctx context.Context, in api.RequeueDeadLetterRequestObject) (api.Response, error) {
	b := in.Body
	if b == nil {
		b = &api.DeadLetterRequeueInput{}
	}
	reset := b.ResetRetryCount != nil && *b.ResetRetryCount
	detail := map[string]any{"reset_retry_count": reset}
	var bound *int
	if b.MaxRetries != nil {
		bound = new(int(*b.MaxRetries))
		detail["max_retries"] = *bound
	}
	return s.changeLetter(ctx, in.MessageID, in.Params.IfMatch, dlq.VerbRequeue, b.Reason, detail,
		func(ctx context.Context, l dlq.Letter) (dlq.Letter, error) {
			p, err := s.PolicyOf(ctx, l.TenantID, l.OriginalTopic)
			if err != nil {
				return l, err
			}
			c, err := dlq.Apply(l, dlq.RequeueRequested{Reset: reset, MaxRetries: bound, Policy: &p}, s.moment())
			return c.After, err
		})
}

// DiscardDeadLetter discards a letter.
func (s *Handlers) DiscardDeadLetter(ctx context.Context, in api.DiscardDeadLetterRequestObject) (api.Response, error) {
	b := in.Body
	var why string
	if b != nil {
		why = b.Reason
	}
	if err := httpkit.RequireReason(why, "a discarded dead letter is never retried, so the audit trail must say why"); err != nil {
		return nil, err
	}
	force := b.Force != nil && *b.Force
	return s.changeLetter(ctx, in.MessageID, in.Params.IfMatch, dlq.VerbDiscard, &b.Reason, map[string]any{"force": force},
		func(_ context.Context, l dlq.Letter) (dlq.Letter, error) {
			c, err := dlq.Apply(l, dlq.DiscardRequested{}, s.moment())
			if err == nil && !force {
				err = sagaWaits(&l)
			}
			return c.After, err
		})
}

// sagaWaits returns a Conflict fault if a saga is waiting for the letter, and nil otherwise.
func sagaWaits(l *dlq.Letter) error {
	if !l.Waited() {
		return nil
	}
	return fault.New(fault.Conflict, dlq.CodeSagaWaits,
		"saga %s is waiting for this dead letter: retry it, resolve it if its step was compensated manually, or set force to override this", l.Link.SagaID).Allowing(l.Actions())
}

// ResolveDeadLetter records that a letter was handled elsewhere. A saga that is waiting for it
// continues.
func (s *Handlers) ResolveDeadLetter(ctx context.Context, in api.ResolveDeadLetterRequestObject) (api.Response, error) {
	var reason *string
	if in.Body != nil {
		reason = in.Body.Reason
	}
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	for range httpkit.Reloads(ctx) {
		l, err := s.live(ctx, in.MessageID, in.Params.IfMatch)
		if err != nil {
			return nil, err
		}
		c, err := dlq.Apply(l, dlq.ResolveRequested{}, s.moment())
		after := c.After
		switch {
		case err != nil:
			return nil, withCurrentLetter(err, &l)
		case httpkit.DryRun(ctx):
			return s.letterWould(ctx, &l, &after)
		case l.Source == dlq.FromSaga:
			after, err = s.UndoneByHand(ctx, l, httpkit.ByOf(ctx, reason))
		default:
			err = s.Letters.Change(ctx, after, s.didLetter(ctx, l.ID, dlq.VerbResolve, reason, nil))
		}
		switch {
		case err == nil:
			return s.letterAnswer(ctx, http.StatusOK, &after)
		case !fault.IsCode(err, dlq.CodeStale):
			return nil, err
		}
	}
	return nil, httpkit.KeepsChanging("dead letter")
}

// AcknowledgeDeadLetter records a consumer's confirmation of a redriven letter.
func (s *Handlers) AcknowledgeDeadLetter(ctx context.Context,
	in api.AcknowledgeDeadLetterRequestObject) (api.Response, error) {
	b := in.Body
	detail := map[string]any{"generation": b.Generation, "outcome": b.Outcome}
	return s.changeLetter(ctx, in.MessageID, in.Params.IfMatch, dlq.VerbAck, b.Reason, detail,
		func(ctx context.Context, l dlq.Letter) (dlq.Letter, error) {
			p, err := s.PolicyOf(ctx, l.TenantID, l.OriginalTopic)
			if err != nil {
				return l, err
			}
			c, err := dlq.Apply(l, dlq.ConsumerReported{
				Generation: int(b.Generation), Processed: b.Outcome == api.DeadLetterAckInputOutcomePROCESSED, Policy: &p,
			}, s.moment())
			return c.After, err
		})
}

// DeleteDeadLetter deletes a letter and leaves a tombstone in the audit trail.
func (s *Handlers) DeleteDeadLetter(ctx context.Context, in api.DeleteDeadLetterRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	force := in.Params.Force != nil && *in.Params.Force
	for range httpkit.Reloads(ctx) {
		l, err := s.live(ctx, in.MessageID, in.Params.IfMatch)
		if err == nil {
			if err = l.Deletable(); err == nil && !force {
				err = sagaWaits(&l)
			}
			err = withCurrentLetter(err, &l)
		}
		if err != nil {
			return nil, err
		}
		if httpkit.DryRun(ctx) {
			return httpkit.Answer{Status: http.StatusOK, Body: api.DeletedDeadLetter{ID: l.ID,
				Changes: httpkit.Planned(dryrun.List{{Member: "place", From: "live"}})}}, nil
		}
		switch err := s.Letters.Delete(ctx, l, s.didLetter(ctx, l.ID, dlq.VerbDelete, &in.Params.Reason, l.Tombstone())); {
		case err == nil:
			return httpkit.Answer{Status: http.StatusOK, Body: api.DeletedDeadLetter{ID: l.ID}}, nil
		case !fault.IsCode(err, dlq.CodeStale):
			return nil, err
		}
	}
	return nil, httpkit.KeepsChanging("dead letter")
}

// RestoreDeadLetter moves an archived letter back to the live letters.
func (s *Handlers) RestoreDeadLetter(ctx context.Context, in api.RestoreDeadLetterRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	var reason *string
	if in.Body != nil {
		reason = in.Body.Reason
	}
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	if httpkit.DryRun(ctx) {
		return s.wouldRestore(ctx, in.MessageID)
	}
	l, err := s.Letters.Restore(ctx, tenant, in.MessageID, s.Now(),
		s.didLetter(ctx, in.MessageID, verbRestore, reason, nil))
	if err == nil {
		return s.letterAnswer(ctx, http.StatusOK, &l)
	}
	if fault.KindOf(err) == fault.NotFound {
		if l, getErr := s.Letters.Get(ctx, tenant, in.MessageID); getErr == nil && l.ArchivedAt == nil {
			err = notArchived(&l)
		}
	}
	return nil, err
}

// notArchived returns the fault for an attempt to restore a live letter.
func notArchived(l *dlq.Letter) error {
	return withCurrentLetter(
		fault.New(fault.Conflict, dlq.CodeConflict, "the dead letter is not archived").Allowing(l.Actions()), l)
}

// wouldRestore responds to a dry run with the letter as it would look after being restored.
func (s *Handlers) wouldRestore(ctx context.Context, id uuid.UUID) (api.Response, error) {
	l, err := s.Letters.Get(ctx, httpkit.RequestOf(ctx).Tenant.ID, id)
	if err != nil {
		return nil, err
	}
	if l.ArchivedAt == nil {
		return nil, notArchived(&l)
	}
	c, err := dlq.Apply(l, dlq.RestoreRequested{}, s.moment())
	if err != nil {
		return nil, withCurrentLetter(err, &l)
	}
	c.After.ArchivedAt = nil
	out, err := s.letterWould(ctx, &l, &c.After)
	if err != nil {
		return nil, err
	}
	body := out.Body.(api.DeadLetter)
	*body.Changes = append(httpkit.PlannedChanges(dryrun.List{{Member: "place", From: "archive", To: "live"}}),
		*body.Changes...)
	return out, nil
}
