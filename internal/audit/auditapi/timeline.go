package auditapi

import (
	"context"
	"net/http"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/timeline"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/principal"
)

// GetTimeline returns the timeline of a correlation id.
func (s *Handlers) GetTimeline(ctx context.Context, in api.GetTimelineRequestObject) (api.Response, error) {
	if s.Timeline == nil {
		return nil, fault.New(fault.Unavailable, jobrun.CodeUnavailable, "the memory store has no timelines: use PostgreSQL")
	}
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, p := httpkit.RequestOf(ctx), in.Params
	asked, err := httpkit.ForwardOf(ctx, s.Cursors, httpkit.ByTimeAndKey, p.PageSize, p.Cursor)
	if err != nil {
		return nil, err
	}
	may := func(p principal.Permission) bool { return req.Who.Subject == "" || req.Who.Role.Allows(p) }
	show := timeline.Shown{Sagas: true, Runs: may(principal.JobsRead), Letters: may(principal.DLQRead)}
	found, err := s.Timeline.Timeline(ctx, req.Tenant.ID, p.CorrelationID, show, asked.Request)
	if err != nil {
		return nil, err
	}
	out := api.Timeline{Entries: httpkit.Each(found.Items, toAPITimeline), Omitted: []api.TimelineOmitted{},
		NextCursor: httpkit.Pagination(asked, found, (*timeline.Entry).Place).NextCursor}
	if !show.Runs {
		out.Omitted = append(out.Omitted, api.TimelineOmittedJobRuns)
	}
	if !show.Letters {
		out.Omitted = append(out.Omitted, api.TimelineOmittedDeadLetters)
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

func toAPITimeline(e *timeline.Entry) api.TimelineEntry {
	out := api.TimelineEntry{
		At: e.At, Kind: api.TimelineEntryKind(e.Kind), SagaID: httpkit.UnlessNil(e.SagaID), RunID: httpkit.UnlessNil(e.RunID),
		MessageID: httpkit.UnlessNil(e.Letter),
		Name:      e.Name, Action: httpkit.UnlessEmpty(e.Action), State: e.State, Code: httpkit.UnlessEmpty(e.Code),
		EndedAt: e.EndedAt,
	}
	if e.Number > 0 {
		out.Number = &e.Number
	}
	return out
}
