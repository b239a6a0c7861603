package sagaapi

import (
	"context"
	"net/http"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/saga"
)

// UpdateSaga changes a saga's assignee and note. It never changes the saga's row, so it cannot
// conflict with a step (decision 0073).
func (s *Handlers) UpdateSaga(ctx context.Context, in api.UpdateSagaRequestObject) (api.Response, error) {
	b := in.Body
	if b.Assignee == nil && b.Note == nil {
		return nil, httpkit.SchemaFault(fault.Field{Code: "required", Message: "must name at least one field to change"})
	}
	req := httpkit.RequestOf(ctx)
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	for range httpkit.Reloads(ctx) {
		f, err := s.heads(ctx, req.Tenant.ID, in.SagaID)
		if err != nil {
			return nil, err
		}
		switch fits, err := httpkit.IfNoteMatches(in.Params.IfMatch, f.note.Version); {
		case err != nil:
			return nil, err
		case !fits:
			return nil, fault.New(fault.Precondition, saga.CodeStale,
				"the note of the saga is at version %d, which does not match If-Match: read the saga again", f.note.Version)
		}
		after, changed := f.note.Edited(saga.NoteEdit{Assignee: b.Assignee, Text: b.Note})
		if httpkit.DryRun(ctx) {
			return s.noteWould(ctx, f, after)
		}
		if changed != nil {
			noted := f.saga.Noted(after, changed, req.Principal, req.ID, httpkit.Text(b.Reason), s.Now())
			noted.Event.NameActor(req.Who.Name)
			err = s.Notes.PutNote(ctx, noted)
		}
		switch {
		case err == nil:
			f.note = after
			return s.headAnswer(ctx, f, http.StatusOK)
		case !fault.IsCode(err, saga.CodeStale):
			return nil, err
		}
	}
	return nil, httpkit.KeepsChanging("note")
}

// noteWould answers a dry run with the saga as the note would leave it.
func (s *Handlers) noteWould(ctx context.Context, f sagaWithLogs, after saga.Note) (httpkit.Answer, error) {
	was, err := s.headAnswer(ctx, f, http.StatusOK)
	if err != nil {
		return was, err
	}
	f.note = after
	is, err := s.headAnswer(ctx, f, http.StatusOK)
	if err != nil {
		return is, err
	}
	body := is.Body.(*api.Saga)
	body.Changes, err = httpkit.Differences(was.Body, body)
	was.Body = body
	return was, err
}
