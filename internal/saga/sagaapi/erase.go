package sagaapi

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/erasure"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
)

// EraseContent erases the content of ended sagas, dead letters and job runs, or counts it.
func (s *Handlers) EraseContent(ctx context.Context, in api.EraseContentRequestObject) (api.Response, error) {
	if s.Eraser == nil {
		return nil, fault.New(fault.Unavailable, fault.CodeUnavailable, "the memory store cannot erase content: use PostgreSQL")
	}
	subject, err := subjectOf(in.Body)
	if err != nil {
		return nil, err
	}
	req := httpkit.RequestOf(ctx)
	e := erasure.Erasure{ID: s.NewID(), TenantID: req.Tenant.ID, Subject: subject, At: s.Now(),
		Actor: req.Principal, ActorName: req.Who.Name, RequestID: req.ID, Reason: in.Body.Reason,
		DryRun: in.Params.DryRun != nil && *in.Params.DryRun}
	ctx, cancel := s.Promised(httpkit.WithActor(ctx, &in.Body.Reason))
	defer cancel()
	erased, err := s.Eraser.Erase(ctx, e)
	if err != nil {
		return nil, err
	}
	out := api.ErasureResult{
		DryRun: e.DryRun, Sagas: erased.Sagas, StepLogs: erased.StepLogs, AuditEvents: erased.Events,
		DeadLetters: erased.Letters, JobRuns: erased.Runs, WebhookDeliveries: erased.Deliveries, More: erased.More,
	}
	if e.DryRun {
		out.Changes = httpkit.PlannedChanges(erased.Changes())
		return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
	}
	s.Log.InfoContext(ctx, "content erased", slog.String("subject", subject.String()), slog.Int("sagas", erased.Sagas),
		slog.Int("dead_letters", erased.Letters), slog.Int("job_runs", erased.Runs), slog.String("request_id", req.ID))
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// subjectOf reads the one member that says what to erase.
func subjectOf(b *api.ErasureInput) (erasure.Subject, error) {
	subject := erasure.Subject{BusinessKey: httpkit.Text(b.BusinessKey), CorrelationID: httpkit.Text(b.CorrelationID)}
	given := 0
	for _, id := range []struct{ from, to *uuid.UUID }{
		{b.SagaID, &subject.SagaID}, {b.DeadLetterID, &subject.LetterID}, {b.JobRunID, &subject.RunID},
	} {
		if id.from != nil && *id.from == uuid.Nil {
			given = 2 // nothing is named
		} else if id.from != nil {
			*id.to = *id.from
			given++
		}
	}
	for _, key := range []*string{b.BusinessKey, b.CorrelationID} {
		if key != nil {
			given++
		}
	}
	if given != 1 {
		return erasure.Subject{}, httpkit.SchemaFault(fault.Field{Pointer: "", Code: "invalid",
			Message: "needs exactly one of saga_id, business_key, correlation_id, dead_letter_id and job_run_id, and no zero id"})
	}
	return subject, nil
}
