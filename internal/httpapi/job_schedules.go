package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/schedule"
)

// previewed is how many slots are shown when nobody says how many.
const previewed = 20

// ListNextJobRuns answers when a definition is due next.
func (s *jobHandlers) ListNextJobRuns(ctx context.Context, in api.ListNextJobRunsRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	from, err := timeOf("from", in.Params.From)
	if err != nil {
		return nil, err
	}
	d, err := s.Definitions.Definition(ctx, requestOf(ctx).tenant.ID, in.Definition)
	if err != nil {
		return nil, err
	}
	if d.Spec.Schedule == nil {
		return answer{status: http.StatusOK, body: api.TickList{Timezone: "UTC", Ticks: []api.Tick{}, Omitted: []api.Tick{}}}, nil
	}
	return s.ticks(*d.Spec.Schedule, from, in.Params.Count)
}

// PreviewSchedule answers when a schedule would fire.
func (s *jobHandlers) PreviewSchedule(ctx context.Context, _ api.PreviewScheduleRequestObject) (api.Response, error) {
	var b struct {
		Schedule schedule.Spec `json:"schedule"`
		From     *time.Time    `json:"from"`
		Count    *int          `json:"count"`
	}
	if err := unreadable(json.Unmarshal(requestOf(ctx).body, &b)); err != nil {
		return nil, err
	}
	from, err := timeOf("from", b.From)
	if err != nil {
		return nil, schemaFault(fault.Field{Pointer: "/from", Code: "invalid", Message: "must be in the years 1970 to 9999"})
	}
	return s.ticks(b.Schedule, from, b.Count)
}

// ticks lists the slots at or after a time, now when it is zero, and apart from
// them what clock changes leave out. Fault: Invalid (jobrun.CodeInvalid), with
// pointers into /schedule.
func (s *jobHandlers) ticks(spec schedule.Spec, from time.Time, count *int) (answer, error) {
	compiled, err := jobrun.CompileSchedule("/schedule", spec)
	if err != nil {
		return answer{}, err
	}
	if from.IsZero() {
		from = s.now()
	}
	n := previewed
	if count != nil {
		n = *count
	}
	out := api.TickList{Timezone: spec.Timezone, Ticks: []api.Tick{}, Omitted: []api.Tick{}}
	if out.Timezone == "" {
		out.Timezone = "UTC"
	}
	for _, t := range compiled.Preview(from.Add(-1), n) { // which is after that
		tick := api.Tick{At: t.At, LocalTime: t.LocalTime, Note: wordUnlessEmpty[api.TickNote](string(t.Note))}
		if t.Note == schedule.SkippedGap {
			out.Omitted = append(out.Omitted, tick)
		} else {
			out.Ticks = append(out.Ticks, tick)
		}
	}
	return answer{status: http.StatusOK, body: out}, nil
}
