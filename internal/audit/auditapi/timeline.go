package auditapi

import (
	"context"
	"net/http"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/audit/timeline"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/rest"
)

// GetTimeline returns the timeline of a correlation id.
func (s *Handlers) GetTimeline(ctx context.Context, in api.GetTimelineRequestObject) (api.Response, error) {
	if s.Timeline == nil {
		return nil, fault.New(fault.Unavailable, jobrun.CodeUnavailable, "the memory store has no timelines: use PostgreSQL")
	}
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, p := rest.RequestOf(ctx), in.Params
	asked, err := rest.ForwardOf(ctx, s.Cursors, rest.ByTimeAndKey, p.PageSize, p.Cursor)
	if err != nil {
		return nil, err
	}
	may := func(p access.Permission) bool { return req.Who.Subject == "" || req.Who.Role.Allows(p) }
	show := timeline.Shown{Sagas: true, Runs: may(access.JobsRead), Letters: may(access.DLQRead)}
	found, err := s.Timeline.Timeline(ctx, req.Tenant.ID, p.CorrelationID, show, asked.Request)
	if err != nil {
		return nil, err
	}
	out := api.Timeline{Entries: rest.Each(found.Items, toAPITimeline), Omitted: []api.TimelineOmitted{},
		NextCursor: rest.Pagination(asked, found, (*timeline.Entry).Place).NextCursor}
	if !show.Runs {
		out.Omitted = append(out.Omitted, api.TimelineOmittedJobRuns)
	}
	if !show.Letters {
		out.Omitted = append(out.Omitted, api.TimelineOmittedDeadLetters)
	}
	return rest.Answer{Status: http.StatusOK, Body: out}, nil
}

func toAPITimeline(e *timeline.Entry) api.TimelineEntry {
	out := api.TimelineEntry{
		At: e.At, Kind: api.TimelineEntryKind(e.Kind), SagaID: rest.UnlessNil(e.SagaID), RunID: rest.UnlessNil(e.RunID),
		MessageID: rest.UnlessNil(e.Letter),
		Name:      e.Name, Action: rest.UnlessEmpty(e.Action), State: e.State, Code: rest.UnlessEmpty(e.Code),
		EndedAt: e.EndedAt,
	}
	if e.Number > 0 {
		out.Number = &e.Number
	}
	return out
}
