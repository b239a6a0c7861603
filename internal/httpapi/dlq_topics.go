package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
)

// ListDeadLetterTopics answers a page of topics by name.
func (s *letterHandlers) ListDeadLetterTopics(ctx context.Context, in api.ListDeadLetterTopicsRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	req, p := requestOf(ctx), in.Params
	paging, err := s.pagingOf(req.list(), nil, p.PageSize, p.Cursor, nil)
	if err != nil {
		return nil, err
	}
	topics, more, err := s.Overview.Topics(ctx, req.tenant.ID, string(paging.after), paging.size)
	if err != nil {
		return nil, err
	}
	out := api.DeadLetterTopicList{Topics: make([]api.DeadLetterTopic, len(topics))}
	for i := range topics {
		out.Topics[i] = toAPITopic(&topics[i], s.now())
	}
	out.Pagination = paging.onward(more, func() []byte { return []byte(topics[len(topics)-1].Topic) })
	return answer{status: http.StatusOK, body: out}, nil
}

// GetDeadLetterTopic answers the statistics of a topic, with its largest groups.
func (s *letterHandlers) GetDeadLetterTopic(ctx context.Context, in api.GetDeadLetterTopicRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	t, err := s.Overview.Topic(ctx, requestOf(ctx).tenant.ID, in.Topic)
	if err != nil {
		return nil, err
	}
	out := toAPITopic(&t, s.now())
	out.TopGroups = toAPIGroups(t.TopGroups)
	out.Alerts = as[api.DeadLetterTopicAlerts](t.Alerts)
	return answer{status: http.StatusOK, body: out}, nil
}

// GetDeadLetterStats counts letters by topic and status.
func (s *letterHandlers) GetDeadLetterStats(ctx context.Context, _ api.GetDeadLetterStatsRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	topics, err := s.Overview.Stats(ctx, requestOf(ctx).tenant.ID)
	if err != nil {
		return nil, err
	}
	out := api.DeadLetterStats{Stats: []api.DeadLetterStat{}}
	for i := range topics {
		for _, status := range dlq.Statuses {
			if n := topics[i].Counts[status]; n > 0 {
				out.Stats = append(out.Stats, api.DeadLetterStat{OriginalTopic: topics[i].Topic, Status: api.DeadLetterStatus(status), Count: n})
			}
		}
	}
	return answer{status: http.StatusOK, body: out}, nil
}

// knownTopic returns nil for a topic that something is known of; a beginning with
// a * at its end is none. Fault: NotFound, because nothing found of a topic that is
// misspelt looks like nothing wrong with the one that is meant.
func (s *letterHandlers) knownTopic(ctx context.Context, tenant uuid.UUID, topic string) error {
	if strings.HasSuffix(topic, "*") {
		return nil
	}
	letters, policy, err := s.Overview.KnownTopic(ctx, tenant, topic)
	if err != nil || letters || policy {
		return err
	}
	return fault.New(fault.NotFound, dlq.CodeTopicNotFound, "topic %q has no dead letters and no policy: check the spelling", clip(topic))
}

func toAPITopic(t *dlq.TopicStats, now time.Time) api.DeadLetterTopic {
	out := api.DeadLetterTopic{
		Topic: t.Topic, OldestOpenAt: t.Oldest,
		Counts:   api.DeadLetterCounts{PENDING: t.Counts[dlq.Pending], RETRYING: t.Counts[dlq.Retrying], RESOLVED: t.Counts[dlq.Resolved], DEAD: t.Counts[dlq.Dead]},
		Arrivals: api.DeadLetterArrivals{Last5M: t.Last5m, Last1H: t.Last1h, Last24H: t.Last24h},
	}
	if t.Oldest != nil {
		out.OldestOpenAgeMS = new(max(0, now.Sub(*t.Oldest).Milliseconds()))
	}
	return out
}
