package jobapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/schedule"
	"github.com/skald-saga/skald/internal/page"
)

// These are the limits of a calendar.
const (
	calendarSlots = 5000
	calendarJobs  = 200
	calendarEach  = 700 // slots of one job; a job that runs every 15 minutes has 672 in a week
	calendarDays  = 62
)

// GetJobCalendar lists the slots of all jobs within a period.
func (s *Handlers) GetJobCalendar(ctx context.Context, in api.GetJobCalendarRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	from, err := httpkit.TimeOf("from", &in.Params.From)
	if err != nil {
		return nil, err
	}
	to, err := httpkit.TimeOf("to", &in.Params.To)
	if err != nil {
		return nil, err
	}
	if !to.After(from) || to.Sub(from) > calendarDays*24*time.Hour {
		return nil, httpkit.BadParameter("to", "invalid", "must be later than from, by at most 62 days")
	}
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	found, err := s.Definitions.ListDefinitions(
		ctx, tenant, jobrun.DefinitionFilter{Type: jobrun.OnTime}, page.ByTime{Limit: calendarJobs},
	)
	if err != nil {
		return nil, err
	}
	q := jobrun.SlotQuery{From: from, To: to, Each: calendarEach + 1}
	for i := range found.Items {
		q.Definitions = append(q.Definitions, found.Items[i].ID)
	}
	past, err := s.Runs.Slots(ctx, tenant, q)
	if err != nil {
		return nil, err
	}
	runs := map[uuid.UUID][]jobrun.SlotRun{}
	for _, slot := range past {
		runs[slot.DefinitionID] = append(runs[slot.DefinitionID], slot)
	}
	out := api.JobCalendar{Slots: []api.JobCalendarSlot{}, Frequent: []api.JobCalendarJob{}, Truncated: found.More}
	for i := range found.Items {
		d := &found.Items[i]
		slots, listed := s.calendarOf(d, runs[d.ID], from, to)
		if listed {
			out.Slots = append(out.Slots, slots...)
		} else {
			out.Frequent = append(out.Frequent, api.JobCalendarJob{
				DefinitionID: d.ID, Definition: d.Name, Timezone: zoneName(d.Spec.Schedule),
			})
		}
	}
	slices.SortStableFunc(out.Slots, func(a, b api.JobCalendarSlot) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Definition, b.Definition))
	})
	if len(out.Slots) > calendarSlots {
		out.Slots, out.Truncated = out.Slots[:calendarSlots], true
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// calendarOf returns the slots of a definition: slots with a run, future slots, and slots that
// clock changes skip. listed is false if there are too many.
func (s *Handlers) calendarOf(
	d *jobrun.Definition, runs []jobrun.SlotRun, from, to time.Time,
) (slots []api.JobCalendarSlot, listed bool) {
	if d.Spec.Schedule == nil || len(runs) > calendarEach {
		return nil, d.Spec.Schedule == nil
	}
	compiled, err := jobrun.CompileSchedule("/schedule", *d.Spec.Schedule)
	if err != nil {
		return nil, true // it was valid when it was stored, but its time zone no longer exists
	}
	zone, err := time.LoadLocation(zoneName(d.Spec.Schedule))
	if err != nil {
		zone = time.UTC
	}
	var key *string
	if d.Spec.ConcurrencyKey != "" {
		key = &d.Spec.ConcurrencyKey
	}
	slot := func(at time.Time, local string, note schedule.Note) api.JobCalendarSlot {
		return api.JobCalendarSlot{
			At: at, DefinitionID: d.ID, Definition: d.Name, Timezone: zoneName(d.Spec.Schedule), LocalTime: local,
			ConcurrencyKey: key, Note: httpkit.EnumUnlessEmpty[api.TickNote](string(note)),
		}
	}
	known := map[time.Time]jobrun.SlotRun{}
	for _, r := range runs {
		known[r.At.UTC()] = r
	}
	due, now := 0, s.Now()
	for _, t := range compiled.Preview(from.Add(-1), calendarEach+1) {
		if !t.At.Before(to) {
			break
		}
		one := slot(t.At, t.LocalTime, t.Note)
		r, has := known[t.At.UTC()]
		if has && r.Withdrawn && d.Enabled && !t.At.Before(now) { // back in the schedule, it will get another run
			has = false
			delete(known, t.At.UTC())
		}
		switch {
		case t.Note == schedule.SkippedGap:
		case has:
			delete(known, t.At.UTC())
			withRun(&one, &r)
		case t.At.Before(now) || !d.Enabled:
			due++
			continue
		case d.Paused(t.At):
			one.Paused = new(true)
		}
		due++
		slots = append(slots, one)
	}
	for at, r := range known { // these belong to an earlier schedule
		one := slot(at, at.In(zone).Format("2006-01-02T15:04:05"), "")
		withRun(&one, &r)
		slots = append(slots, one)
	}
	return slots, max(due, len(slots)) <= calendarEach
}

// withRun adds the result of a slot.
func withRun(slot *api.JobCalendarSlot, r *jobrun.SlotRun) {
	state := api.JobRunState(r.State)
	slot.RunID, slot.State = &r.RunID, &state
	if r.Reason != "" {
		slot.Reason = &r.Reason
	}
}

// zoneName returns the time zone of a schedule.
func zoneName(s *schedule.Spec) string {
	if s == nil || s.Timezone == "" {
		return "UTC"
	}
	return s.Timezone
}
