package jobapi

import (
	"context"
	"net/http"
	"time"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
)

// definitionCreated responds to a dry run that would create a definition. The reported changes are
// the members that differ from those of an empty definition.
func (s *Handlers) definitionCreated(ctx context.Context, d *jobrun.Definition) (httpkit.Answer, error) {
	none := *d
	none.Name, none.Spec, none.Enabled, none.NextDueAt = "", jobrun.Spec{}.Complete(), true, nil
	out, err := s.definitionWould(ctx, &none, d)
	out.ETag = ""
	return out, err
}

// definitionWould responds to a dry run with the definition as it would be stored. Fault: Conflict
// if another definition has its name.
func (s *Handlers) definitionWould(ctx context.Context, before, after *jobrun.Definition) (httpkit.Answer, error) {
	if after.Name != before.Name {
		switch other, err := s.Definitions.Definition(ctx, after.TenantID, after.Name); {
		case err == nil && other.DeletedAt == nil && other.Name == after.Name:
			return httpkit.Answer{}, after.NameTaken()
		case err != nil && fault.KindOf(err) != fault.NotFound:
			return httpkit.Answer{}, err
		}
	}
	is, was := s.definitionAnswer(after), s.definitionAnswer(before)
	body := is.Body.(shownDefinition)
	compared, to := was.Body.(shownDefinition), body
	compared.NextRunAt, to.NextRunAt = nil, nil // it is derived from the slot
	var err error
	body.Changes, err = httpkit.Differences(compared, to)
	return httpkit.Answer{Status: http.StatusOK, Body: body, ETag: was.ETag}, err
}

// wouldDelete responds to a dry run of deleting a definition. Without force, the fault is Conflict
// if it has unfinished runs.
func (s *Handlers) wouldDelete(ctx context.Context, d *jobrun.Definition, force bool,
	now time.Time) (httpkit.Answer, error) {
	ended, runs, err := s.wouldCancel(ctx, d.TenantID, jobrun.Filter{DefinitionID: d.ID, States: jobrun.ActiveStates},
		jobrun.CancelRequested{}, now)
	if err != nil {
		return httpkit.Answer{}, err
	}
	if !force && len(runs) > 0 {
		return httpkit.Answer{}, jobrun.NotEnded(runs[0].ID)
	}
	after := *d
	after.DeletedAt, after.NextDueAt = &now, nil
	out, err := s.definitionWould(ctx, d, &after)
	if err != nil {
		return out, err
	}
	body := out.Body.(shownDefinition)
	*body.Changes = append(*body.Changes, ended...)
	return out, nil
}

func (s *Handlers) definitionAnswer(d *jobrun.Definition) httpkit.Answer {
	return httpkit.Answer{Status: http.StatusOK, Body: showDefinition(d, s.Now()), ETag: httpkit.ETagOf(d.Version)}
}
