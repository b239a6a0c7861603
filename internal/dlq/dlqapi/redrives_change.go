package dlqapi

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
)

// PauseRedrive stops a redrive from taking more letters.
func (s *Handlers) PauseRedrive(ctx context.Context, in api.PauseRedriveRequestObject) (api.Response, error) {
	return s.moveRedrive(ctx, in.RedriveID, in.Params.IfMatch, dlq.PauseRedrive, in.Body)
}

// ResumeRedrive resumes a paused or halted redrive.
func (s *Handlers) ResumeRedrive(ctx context.Context, in api.ResumeRedriveRequestObject) (api.Response, error) {
	reason, detail := "", map[string]any(nil)
	var stop *dlq.StopOn
	if b := in.Body; b != nil {
		reason = httpkit.Text(b.Reason)
		if stop = stopOf(b.StopOn); stop != nil {
			detail = map[string]any{"stop_on": *stop}
		}
	}
	return s.changeRedrive(ctx, in.RedriveID, in.Params.IfMatch, string(dlq.ResumeRedrive), reason, detail,
		func(r dlq.Redrive, now time.Time) (dlq.Redrive, error) {
			return r.Resumed(stop, httpkit.RequestOf(ctx).Principal, now)
		})
}

// CancelRedrive ends a redrive.
func (s *Handlers) CancelRedrive(ctx context.Context, in api.CancelRedriveRequestObject) (api.Response, error) {
	return s.moveRedrive(ctx, in.RedriveID, in.Params.IfMatch, dlq.CancelRedrive, in.Body)
}

// ApproveRedrive approves a redrive that another user requested.
func (s *Handlers) ApproveRedrive(ctx context.Context, in api.ApproveRedriveRequestObject) (api.Response, error) {
	return s.moveRedrive(ctx, in.RedriveID, in.Params.IfMatch, dlq.ApproveRedrive, in.Body)
}

func (s *Handlers) moveRedrive(ctx context.Context, id uuid.UUID, match *string, verb dlq.RedriveVerb,
	b *api.DeadLetterActionInput) (httpkit.Answer, error) {
	reason := ""
	if b != nil {
		reason = httpkit.Text(b.Reason)
	}
	return s.changeRedrive(ctx, id, match, string(verb), reason, nil,
		func(r dlq.Redrive, now time.Time) (dlq.Redrive, error) {
			req := httpkit.RequestOf(ctx)
			after, err := r.Moved(verb, req.Principal, now)
			if verb == dlq.ApproveRedrive {
				after.ApprovedByName = req.Who.Name
			}
			return after, err
		})
}

// UpdateRedrive changes the rate and limits of a redrive.
func (s *Handlers) UpdateRedrive(ctx context.Context, in api.UpdateRedriveRequestObject) (api.Response, error) {
	b := in.Body
	edit := dlq.RedriveEdit{Rate: b.RatePerSecond, StopOn: stopOf(b.StopOn)}
	if b.Concurrency != nil {
		edit.Concurrency = new(int(*b.Concurrency))
	}
	detail := map[string]any{}
	if edit.Rate != nil {
		detail["rate_per_second"] = *edit.Rate
	}
	if edit.Concurrency != nil {
		detail["concurrency"] = *edit.Concurrency
	}
	if edit.StopOn != nil {
		detail["stop_on"] = *edit.StopOn
	}
	return s.changeRedrive(ctx, in.RedriveID, in.Params.IfMatch, httpkit.VerbUpdate, httpkit.Text(b.Reason), detail,
		func(r dlq.Redrive, now time.Time) (dlq.Redrive, error) {
			return r.Edited(edit, s.RedriveLimits, now)
		})
}

// changeRedrive reads a redrive, applies decide, and stores the decision. It starts over if the
// redrive was changed in the meantime.
func (s *Handlers) changeRedrive(ctx context.Context, id uuid.UUID, match *string, verb, reason string,
	detail map[string]any,
	decide func(r dlq.Redrive, now time.Time) (dlq.Redrive, error)) (httpkit.Answer, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	for range httpkit.Reloads(ctx) {
		r, err := s.Redrives.Get(ctx, httpkit.RequestOf(ctx).Tenant.ID, id)
		if err != nil {
			return httpkit.Answer{}, err
		}
		switch fits, err := httpkit.IfMatch(match, r.Version); {
		case err != nil:
			return httpkit.Answer{}, err
		case !fits:
			return httpkit.Answer{}, httpkit.Stale(dlq.CodeStale, "redrive", r.Version)
		}
		after, err := decide(r, s.Now())
		if err != nil {
			return httpkit.Answer{}, err
		}
		if httpkit.DryRun(ctx) {
			is := httpkit.Answer{Status: http.StatusOK, Body: toAPIRedrive(&r, s.Now()), ETag: httpkit.ETagOf(r.Version)}
			return httpkit.Would(is, toAPIRedrive(&after, s.Now()),
				func(r *api.Redrive) **api.PlannedChanges { return &r.Changes })
		}
		by := s.Did(ctx, after.UpdatedAt, operator.Redrive, id.String(), verb, reason, detail)
		switch err := s.Redrives.Change(ctx, after, by); {
		case err == nil:
			s.WakeRedrives()
			if after.State.Over() {
				s.Ends.Ended(endOf(&after), nil)
			}
			return s.redriveAnswer(&after), nil
		case !fault.IsCode(err, dlq.CodeStale):
			return httpkit.Answer{}, err
		}
	}
	return httpkit.Answer{}, httpkit.KeepsChanging("redrive")
}

func (s *Handlers) redriveAnswer(r *dlq.Redrive) httpkit.Answer {
	return httpkit.Answer{Status: http.StatusOK, Body: toAPIRedrive(r, s.Now()), ETag: httpkit.ETagOf(r.Version)}
}
