package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
)

// PauseRedrive keeps a redrive from taking more letters.
func (s *letterHandlers) PauseRedrive(ctx context.Context, in api.PauseRedriveRequestObject) (api.Response, error) {
	return s.moveRedrive(ctx, in.RedriveID, in.Params.IfMatch, dlq.PauseRedrive, in.Body)
}

// ResumeRedrive lets a paused or halted redrive go on.
func (s *letterHandlers) ResumeRedrive(ctx context.Context, in api.ResumeRedriveRequestObject) (api.Response, error) {
	reason, detail := "", map[string]any(nil)
	var stop *dlq.StopOn
	if b := in.Body; b != nil {
		reason = text(b.Reason)
		if stop = stopOf(b.StopOn); stop != nil {
			detail = map[string]any{"stop_on": *stop}
		}
	}
	return s.changeRedrive(ctx, in.RedriveID, in.Params.IfMatch, string(dlq.ResumeRedrive), reason, detail, func(r dlq.Redrive, now time.Time) (dlq.Redrive, error) {
		return r.Resumed(stop, requestOf(ctx).principal, now)
	})
}

// CancelRedrive ends a redrive.
func (s *letterHandlers) CancelRedrive(ctx context.Context, in api.CancelRedriveRequestObject) (api.Response, error) {
	return s.moveRedrive(ctx, in.RedriveID, in.Params.IfMatch, dlq.CancelRedrive, in.Body)
}

// ApproveRedrive agrees to a redrive that somebody else asked for.
func (s *letterHandlers) ApproveRedrive(ctx context.Context, in api.ApproveRedriveRequestObject) (api.Response, error) {
	return s.moveRedrive(ctx, in.RedriveID, in.Params.IfMatch, dlq.ApproveRedrive, in.Body)
}

func (s *letterHandlers) moveRedrive(ctx context.Context, id uuid.UUID, match *string, verb dlq.RedriveVerb, b *api.DeadLetterActionInput) (answer, error) {
	reason := ""
	if b != nil {
		reason = text(b.Reason)
	}
	return s.changeRedrive(ctx, id, match, string(verb), reason, nil, func(r dlq.Redrive, now time.Time) (dlq.Redrive, error) {
		return r.Moved(verb, requestOf(ctx).principal, now)
	})
}

// UpdateRedrive changes the pace of a redrive.
func (s *letterHandlers) UpdateRedrive(ctx context.Context, in api.UpdateRedriveRequestObject) (api.Response, error) {
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
	return s.changeRedrive(ctx, in.RedriveID, in.Params.IfMatch, verbUpdate, text(b.Reason), detail, func(r dlq.Redrive, now time.Time) (dlq.Redrive, error) {
		return r.Edited(edit, s.RedriveLimits, now)
	})
}

// changeRedrive reads a redrive, decides, and stores the decision, and anew
// when somebody else changed it meanwhile.
func (s *letterHandlers) changeRedrive(ctx context.Context, id uuid.UUID, match *string, verb, reason string, detail map[string]any,
	decide func(r dlq.Redrive, now time.Time) (dlq.Redrive, error)) (answer, error) {
	ctx, cancel := s.promised(ctx)
	defer cancel()
	for range maxReloads {
		r, err := s.Redrives.Get(ctx, requestOf(ctx).tenant.ID, id)
		if err != nil {
			return answer{}, err
		}
		switch fits, err := ifMatch(match, r.Version); {
		case err != nil:
			return answer{}, err
		case !fits:
			return answer{}, stale(dlq.CodeStale, "redrive", r.Version)
		}
		after, err := decide(r, s.now())
		if err != nil {
			return answer{}, err
		}
		by := s.did(ctx, after.UpdatedAt, operator.Redrive, id.String(), verb, reason, detail)
		switch err := s.Redrives.Change(ctx, after, by); {
		case err == nil:
			s.WakeRedrives()
			return s.redriveAnswer(&after), nil
		case !fault.IsCode(err, dlq.CodeStale):
			return answer{}, err
		}
	}
	return answer{}, fault.New(fault.Unavailable, codeUnavailable, "the redrive keeps changing; try again")
}

func (s *letterHandlers) redriveAnswer(r *dlq.Redrive) answer {
	return answer{status: http.StatusOK, body: toAPIRedrive(r, s.now()), etag: etagOf(r.Version)}
}
