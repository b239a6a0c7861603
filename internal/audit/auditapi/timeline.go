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

// GetTimeline answers what happened under a correlation id.
func (s *Handlers) GetTimeline(ctx context.Context, in api.GetTimelineRequestObject) (api.Response, error) {
	if s.Timeline == nil {
		return nil, fault.New(fault.Unavailable, jobrun.CodeUnavailable, "the memory store has no timelines: use PostgreSQL")
	}
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, p := rest.RequestOf(ctx), in.Params
	paging, err := s.PagingOf(req.List(), nil, p.PageSize, p.Cursor, nil)
	if err != nil {
		return nil, err
	}
	var after *timeline.Cursor
	if p.Cursor != nil {
		at, key, err := rest.TimeAndText(paging.After)
		if err != nil {
			return nil, err
		}
		after = &timeline.Cursor{At: at, Key: key}
	}
	may := func(p access.Permission) bool { return req.Who.Subject == "" || req.Who.Role.Allows(p) }
	show := timeline.Shown{Sagas: true, Runs: may(access.JobsRead), Letters: may(access.DLQRead)}
	entries, more, err := s.Timeline.Timeline(ctx, req.Tenant.ID, p.CorrelationID, show, after, paging.Size)
	if err != nil {
		return nil, err
	}
	out := api.Timeline{Entries: make([]api.TimelineEntry, len(entries)), Omitted: []api.TimelineOmitted{}}
	if !show.Runs {
		out.Omitted = append(out.Omitted, api.TimelineOmittedJobRuns)
	}
	if !show.Letters {
		out.Omitted = append(out.Omitted, api.TimelineOmittedDeadLetters)
	}
	for i := range entries {
		out.Entries[i] = toAPITimeline(&entries[i])
	}
	out.NextCursor = paging.AnswerForward(more, func() []byte {
		last := &entries[len(entries)-1]
		return rest.TimeAndTextKeys(last.At, last.Key)
	}).NextCursor
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
