package dlqapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
)

// ListDeadLetterTopics returns a page of topics, ordered by name.
func (s *Handlers) ListDeadLetterTopics(ctx context.Context,
	in api.ListDeadLetterTopicsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, p := httpkit.RequestOf(ctx), in.Params
	asked, err := httpkit.ForwardOf(ctx, s.Cursors, httpkit.ByName, p.PageSize, p.Cursor)
	if err != nil {
		return nil, err
	}
	var most int64
	if p.CountUpTo != nil {
		most = int64(*p.CountUpTo)
	}
	found, err := s.Overview.Topics(ctx, req.Tenant.ID, httpkit.Text(p.Topic), asked.Request, most)
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.DeadLetterTopicList{
		Topics:     httpkit.Each(found.Items, func(t *dlq.TopicStats) api.DeadLetterTopic { return toAPITopic(t, s.Now()) }),
		Pagination: httpkit.Pagination(asked, found, func(t *dlq.TopicStats) string { return t.Topic }),
	}}, nil
}

// GetDeadLetterTopic returns the statistics of a topic, with its largest groups.
func (s *Handlers) GetDeadLetterTopic(ctx context.Context,
	in api.GetDeadLetterTopicRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	t, err := s.Overview.Topic(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.Topic)
	if err != nil {
		return nil, err
	}
	out := toAPITopic(&t, s.Now())
	out.TopGroups = httpkit.Each(t.TopGroups, toAPIGroup)
	out.Alerts = httpkit.Enums[api.DeadLetterTopicAlerts](t.Alerts)
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// GetDeadLetterStatistics counts letters by topic and status.
func (s *Handlers) GetDeadLetterStatistics(ctx context.Context,
	_ api.GetDeadLetterStatisticsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	topics, err := s.Overview.Stats(ctx, httpkit.RequestOf(ctx).Tenant.ID)
	if err != nil {
		return nil, err
	}
	out := api.DeadLetterStats{Stats: []api.DeadLetterStat{}}
	for i := range topics {
		for _, status := range dlq.Statuses {
			if n := topics[i].Counts[status]; n > 0 {
				out.Stats = append(out.Stats, api.DeadLetterStat{OriginalTopic: topics[i].Topic,
					Status: api.DeadLetterStatus(status), Count: n})
			}
		}
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// knownTopic returns nil if a topic exists in any form; a prefix ending in * is not a topic. Fault:
// NotFound, because an empty result for a misspelled topic would make the intended topic look
// healthy.
func (s *Handlers) knownTopic(ctx context.Context, tenant uuid.UUID, topic string) error {
	if strings.HasSuffix(topic, "*") {
		return nil
	}
	letters, policy, err := s.Overview.KnownTopic(ctx, tenant, topic)
	if err != nil || letters || policy {
		return err
	}
	return fault.New(fault.NotFound, dlq.CodeTopicNotFound, "topic %q has no dead letters and no policy: check the spelling", httpkit.Clip(topic))
}

func toAPITopic(t *dlq.TopicStats, now time.Time) api.DeadLetterTopic {
	out := api.DeadLetterTopic{
		Topic: t.Topic, OldestOpenAt: t.Oldest,
		Counts: api.DeadLetterCounts{PENDING: t.Counts[dlq.Pending], RETRYING: t.Counts[dlq.Retrying],
			RESOLVED: t.Counts[dlq.Resolved], DEAD: t.Counts[dlq.Dead]},
		Arrivals:       api.DeadLetterArrivals{Last5M: t.Last5m, Last1H: t.Last1h, Last24H: t.Last24h},
		ArrivalsByHour: t.Hourly[:], CountsCapped: httpkit.Enums[api.DeadLetterStatus](t.Capped),
	}
	if t.Oldest != nil {
		out.OldestOpenAgeMS = new(max(0, now.Sub(*t.Oldest).Milliseconds()))
	}
	return out
}
