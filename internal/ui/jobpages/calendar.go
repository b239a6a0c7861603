package jobpages

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// calendarPage shows the slots of all jobs on one day or on the days of a week.
type calendarPage struct {
	Days      []calendarDay
	Zone      string
	Zones     []string // time zones of the jobs
	From      string   // first day shown
	Views     []web.Tab
	Earlier   string // URLs of the adjacent periods
	Today     string
	Later     string
	Frequent  []client.JobCalendarJob
	Truncated bool
	Now       time.Time
}

type calendarDay struct {
	Name  string
	Today bool
	Rows  []calendarRow
}

// calendarRow is a slot, or all slots of a job that has many on that day.
type calendarRow struct {
	ID      string
	Time    string // in the page's time zone
	Local   string // in the job's time zone if that is different
	Job     string
	JobURL  string
	State   *web.Badge // of a single slot; nil: it is in the future, or there are several slots
	RunURL  string
	Notes   []string
	Left    bool // nothing runs at that time
	Several []calendarRow
	Counts  string
}

// fewSlots is the number of slots of a job on one day up to which each has its own row.
const fewSlots = 4

func (p *pages) calendar(v *web.Visit) (*web.Page, error) {
	q := v.URL.Query()
	zone, err := time.LoadLocation(q.Get("zone")) // empty means UTC
	if err != nil || q.Get("zone") == "Local" {
		return nil, web.Malformed("This is not a time zone: use a name such as Europe/Berlin, or UTC.")
	}
	days := 7
	if q.Get("view") == "day" {
		days = 1
	}
	today := dayOf(v.Now.In(zone))
	first := today
	if days == 7 {
		first = today.AddDate(0, 0, -(int(today.Weekday())+6)%7)
	}
	if text := q.Get("from"); text != "" {
		if first, err = time.ParseInLocation(time.DateOnly, text, zone); err != nil {
			return nil, web.Malformed("The first day must be a date such as 2026-11-23.")
		}
	}
	res, err := p.kit.Client.GetJobCalendarWithResponse(v.Context(), &client.GetJobCalendarParams{
		From: first.UTC(), To: first.AddDate(0, 0, days).UTC(),
	})
	if err != nil {
		return nil, err
	}
	list, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	d := &calendarPage{
		Zone: zone.String(), From: first.Format(time.DateOnly), Frequent: list.Frequent, Truncated: list.Truncated,
		Now: v.Now, Zones: zonesOf(list),
	}
	to := func(view string, from time.Time) string {
		next := url.Values{"zone": {d.Zone}, "view": {view}}
		if !from.IsZero() {
			next.Set("from", from.Format(time.DateOnly))
		}
		return "?" + next.Encode()
	}
	view := map[int]string{1: "day", 7: "week"}[days]
	for _, name := range []string{"Week", "Day"} {
		d.Views = append(d.Views, web.Tab{
			Name: name, URL: to(strings.ToLower(name), time.Time{}), Current: strings.ToLower(name) == view,
		})
	}
	d.Earlier, d.Later = to(view, first.AddDate(0, 0, -days)), to(view, first.AddDate(0, 0, days))
	d.Today = to(view, time.Time{})
	for i := range days {
		day := first.AddDate(0, 0, i)
		d.Days = append(d.Days, calendarDay{
			Name: day.Format("Monday 2 January 2006"), Today: day.Equal(today),
			Rows: p.dayRows(list.Slots, day, day.AddDate(0, 0, 1), zone),
		})
	}
	return &web.Page{Template: "calendar", Title: "Calendar", Nav: "Jobs", Refresh: 10, Data: d}, nil
}

// dayOf returns the beginning of the day in t's time zone.
func dayOf(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, t.Location())
}

// zonesOf returns the time zones of the jobs as options.
func zonesOf(c *client.JobCalendar) []string {
	zones := []string{"UTC"}
	for i := range c.Slots {
		if z := c.Slots[i].Timezone; !slices.Contains(zones, z) {
			zones = append(zones, z)
		}
	}
	slices.Sort(zones)
	return zones
}

// dayRows returns the slots of a day, ordered by time. If a job has many slots, they share one row
// at the time of the first one.
func (p *pages) dayRows(slots []client.JobCalendarSlot, from, to time.Time, zone *time.Location) (rows []calendarRow) {
	byJob := map[string][]client.JobCalendarSlot{}
	var order []string
	for i := range slots {
		s := &slots[i]
		if s.At.Before(from) || !s.At.Before(to) {
			continue
		}
		id := s.DefinitionID.String()
		if byJob[id] == nil {
			order = append(order, id)
		}
		byJob[id] = append(byJob[id], *s)
	}
	type timed struct {
		at  time.Time
		row calendarRow
	}
	var all []timed
	for _, id := range order {
		of := byJob[id]
		single := make([]calendarRow, len(of))
		for i := range of {
			single[i] = p.slotRow(&of[i], slots, zone)
		}
		if len(of) <= fewSlots {
			for i := range of {
				all = append(all, timed{of[i].At, single[i]})
			}
			continue
		}
		row := calendarRow{
			ID: from.Format(time.DateOnly) + "-" + id, Job: of[0].Definition, JobURL: single[0].JobURL, Several: single,
			Time: single[0].Time + " – " + single[len(single)-1].Time, Counts: countsOf(of),
		}
		for i := range single {
			for _, note := range single[i].Notes {
				if !slices.Contains(row.Notes, note) && len(row.Notes) < 3 {
					row.Notes = append(row.Notes, note)
				}
			}
		}
		all = append(all, timed{of[0].At, row})
	}
	slices.SortStableFunc(all, func(a, b timed) int { return a.at.Compare(b.at) })
	for _, t := range all {
		rows = append(rows, t.row)
	}
	return rows
}

func (p *pages) slotRow(s *client.JobCalendarSlot, all []client.JobCalendarSlot, zone *time.Location) calendarRow {
	row := calendarRow{
		Time: clockOf(s.At.In(zone)), Job: s.Definition, JobURL: p.kit.Base + "/ui/jobs/" + s.DefinitionID.String(),
	}
	if s.Timezone != zone.String() && len(s.LocalTime) > 11 {
		row.Local = strings.TrimSuffix(s.LocalTime[11:], ":00") + " in " + s.Timezone
	}
	if note := noteOf(s.Note); note != "" {
		row.Notes = append(row.Notes, note)
	}
	row.Left = s.Note != nil && *s.Note == client.TickNoteSkippedGap
	if s.State != nil {
		b := web.BadgeOf(*s.State)
		row.State = &b
	}
	if s.RunID != nil {
		row.RunURL = p.kit.Base + "/ui/runs/" + s.RunID.String()
	}
	if s.Reason != nil {
		row.Notes = append(row.Notes, *s.Reason)
	}
	if s.Paused != nil && *s.Paused {
		row.Notes = append(row.Notes, "will be skipped: the job is paused then")
	}
	if with := sharing(s, all); with != "" {
		row.Notes = append(row.Notes, with)
	}
	return row
}

// clockOf formats the time of day, with seconds only if they are not zero.
func clockOf(t time.Time) string { return strings.TrimSuffix(t.Format("15:04:05"), ":00") }

// sharing names the other jobs that are due at the same time and have the same key.
func sharing(s *client.JobCalendarSlot, all []client.JobCalendarSlot) string {
	if s.ConcurrencyKey == nil {
		return ""
	}
	from, _ := slices.BinarySearchFunc(all, s.At, func(o client.JobCalendarSlot, at time.Time) int {
		return o.At.Compare(at)
	})
	var with []string
	for ; from < len(all) && all[from].At.Equal(s.At); from++ {
		o := &all[from]
		if o.DefinitionID != s.DefinitionID && o.ConcurrencyKey != nil && *o.ConcurrencyKey == *s.ConcurrencyKey {
			with = append(with, o.Definition)
		}
	}
	if with == nil {
		return ""
	}
	return "shares the key " + *s.ConcurrencyKey + " with " + strings.Join(with, ", ") + ", due at the same time"
}

// countsOf describes how many slots are in each state.
func countsOf(slots []client.JobCalendarSlot) string {
	counts := map[string]int{}
	var order []string
	for i := range slots {
		word := "upcoming"
		if slots[i].State != nil {
			word = web.BadgeOf(*slots[i].State).Word
		} else if n := slots[i].Note; n != nil && *n == client.TickNoteSkippedGap {
			word = "left out"
		}
		if counts[word]++; counts[word] == 1 {
			order = append(order, word)
		}
	}
	said := make([]string, len(order))
	for i, word := range order {
		said[i] = fmt.Sprintf("%d %s", counts[word], word)
	}
	return strings.Join(said, ", ")
}
