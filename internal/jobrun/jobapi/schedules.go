package jobapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/schedule"
)

// previewed is the default number of slots in a preview.
const previewed = 20

// ListNextJobRuns returns the next slots of a definition.
func (s *Handlers) ListNextJobRuns(ctx context.Context, in api.ListNextJobRunsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	from, err := httpkit.TimeOf("from", in.Params.From)
	if err != nil {
		return nil, err
	}
	d, err := s.Definitions.Definition(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.Definition)
	if err != nil {
		return nil, err
	}
	if d.Spec.Schedule == nil {
		return httpkit.Answer{Status: http.StatusOK,
			Body: api.TickList{Timezone: "UTC", Ticks: []api.Tick{}, Omitted: []api.Tick{}}}, nil
	}
	return s.ticks(*d.Spec.Schedule, from, in.Params.Count)
}

// PreviewSchedule returns the next slots of a schedule.
func (s *Handlers) PreviewSchedule(ctx context.Context, _ api.PreviewScheduleRequestObject) (api.Response, error) {
	var b struct {
		Schedule schedule.Spec `json:"schedule"`
		From     *time.Time    `json:"from"`
		Count    *int          `json:"count"`
	}
	if err := httpkit.Unreadable(json.Unmarshal(httpkit.RequestOf(ctx).Body, &b)); err != nil {
		return nil, err
	}
	from, err := httpkit.TimeOf("from", b.From)
	if err != nil {
		return nil, httpkit.SchemaFault(fault.Field{Pointer: "/from", Code: "invalid", Message: "must be in the years 1970 to 9999"})
	}
	return s.ticks(b.Schedule, from, b.Count)
}

// ticks lists the slots at or after a time (now, if the time is zero) and, separately, the slots
// that clock changes skip. Fault: Invalid (jobrun.CodeInvalid), with pointers into /schedule.
func (s *Handlers) ticks(spec schedule.Spec, from time.Time, count *int) (httpkit.Answer, error) {
	compiled, err := jobrun.CompileSchedule("/schedule", spec)
	if err != nil {
		return httpkit.Answer{}, err
	}
	if from.IsZero() {
		from = s.Now()
	}
	n := previewed
	if count != nil {
		n = *count
	}
	out := api.TickList{Timezone: spec.Timezone, Ticks: []api.Tick{}, Omitted: []api.Tick{}}
	if out.Timezone == "" {
		out.Timezone = "UTC"
	}
	for _, t := range compiled.Preview(from.Add(-1), n) { // Preview is exclusive
		tick := api.Tick{At: t.At, LocalTime: t.LocalTime, Note: httpkit.EnumUnlessEmpty[api.TickNote](string(t.Note))}
		if t.Note == schedule.SkippedGap {
			out.Omitted = append(out.Omitted, tick)
		} else {
			out.Ticks = append(out.Ticks, tick)
		}
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}
