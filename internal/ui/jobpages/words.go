package jobpages

import (
	"fmt"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// scheduleWords says when a schedule fires.
func scheduleWords(s *client.JobSchedule) string {
	if s == nil {
		return ""
	}
	values := strings.Join(strings.Split(s.Value, ","), ", ")
	var text string
	switch s.Type {
	case client.ScheduleTypeInterval:
		text = "every " + s.Value
	case client.ScheduleTypeEveryNMinutes:
		text = "every " + s.Value + " minutes"
		if s.Value == "1" {
			text = "every minute"
		}
	case client.ScheduleTypeHourlyAtMinute:
		text = "each hour at minute " + values
	case client.ScheduleTypeDailyAt:
		text = "each day at " + values
	case client.ScheduleTypeWeekdaysAt:
		text = "Monday to Friday at " + values
	case client.ScheduleTypeWeeklyAt:
		text = "each week on " + values
	default:
		text = string(s.Type) + " " + s.Value
	}
	if s.Type != client.ScheduleTypeInterval && s.Type != client.ScheduleTypeEveryNMinutes {
		text += ", " + zoneOf(s)
	}
	if s.StartAt != nil {
		text += ", from " + stamp(*s.StartAt)
	}
	if s.EndAt != nil {
		text += ", until " + stamp(*s.EndAt)
	}
	return text
}

// zoneOf is the time zone that a schedule is read in.
func zoneOf(s *client.JobSchedule) string {
	if s == nil || s.Timezone == nil || *s.Timezone == "" {
		return "UTC"
	}
	return *s.Timezone
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }

// dueWords says what creates runs of a definition.
func dueWords(d *client.JobDefinition) string {
	switch {
	case d.Schedule != nil:
		return scheduleWords(d.Schedule)
	case d.Event != nil:
		return "on events " + d.Event.EventType
	}
	return "only by hand"
}

// overlapWords say what happens to a run that is due while another one has not ended.
var overlapWords = map[client.JobConcurrencyPolicy]string{
	client.JobConcurrencyPolicyAllow:   "Any number of its runs may be in progress at a time.",
	client.JobConcurrencyPolicyForbid:  "One run at a time: one that is due while another has not ended is skipped.",
	client.JobConcurrencyPolicyReplace: "One run at a time: one that is due cancels the other first.",
	client.JobConcurrencyPolicyQueue:   "One run at a time: the others wait, in the order of their slots.",
}

// overlapShort are the same, for a list.
var overlapShort = map[client.JobConcurrencyPolicy]string{
	client.JobConcurrencyPolicyAllow:   "runs may overlap",
	client.JobConcurrencyPolicyForbid:  "one at a time, else skipped",
	client.JobConcurrencyPolicyReplace: "the newest replaces the other",
	client.JobConcurrencyPolicyQueue:   "one at a time, others wait",
}

// lateWords say what happens to slots that are overdue.
var lateWords = map[client.JobMisfirePolicy]string{
	client.JobMisfirePolicySkip:     "Slots that are overdue are skipped.",
	client.JobMisfirePolicyFireOnce: "Of the slots that are overdue, only the newest runs.",
	client.JobMisfirePolicyCatchUp:  "Slots that are overdue all run, oldest first",
}

// policyWords are the sentences about how a definition's runs are made and retried.
func policyWords(d *client.JobDefinition) []string {
	overlap := overlapWords[d.ConcurrencyPolicy]
	if overlap == "" {
		overlap = "Overlap: " + string(d.ConcurrencyPolicy) + "."
	}
	if k := d.ConcurrencyKey; k != nil && *k != "" {
		overlap += " This holds for all definitions with the key " + *k + "."
	}
	if l := d.QueueLimit; l != nil && *l > 0 {
		overlap += fmt.Sprintf(" At most %d may wait.", *l)
	}
	all := []string{overlap}
	if p := d.MisfirePolicy; d.Schedule != nil && p != nil {
		late := lateWords[*p]
		if *p == client.JobMisfirePolicyCatchUp {
			limit := 100
			if d.CatchUpLimit != nil && *d.CatchUpLimit > 0 {
				limit = *d.CatchUpLimit
			}
			late += fmt.Sprintf(", at most %d.", limit)
		}
		all = append(all, late)
	}
	all = append(all, retryWords(d.Retry))
	if t := d.TimeoutMS; t != nil && *t > 0 {
		all = append(all, "An attempt may take "+web.Milliseconds(*t)+".")
	}
	if j := d.JitterMS; j != nil && *j > 0 {
		all = append(all, "A scheduled run starts up to "+web.Milliseconds(*j)+" after its slot.")
	}
	return all
}

// retryWords says how failed runs are retried.
func retryWords(r client.JobRetry) string {
	n := 1
	if r.MaxAttempts != nil && *r.MaxAttempts > 0 {
		n = *r.MaxAttempts
	}
	if n == 1 {
		return "A run that fails is not retried."
	}
	text := fmt.Sprintf("A run that fails is retried, up to %d runs in all", n)
	if r.InitialIntervalMS != nil && *r.InitialIntervalMS > 0 {
		text += "; the first retry waits " + web.Milliseconds(*r.InitialIntervalMS)
	}
	return text + "."
}

// noteWords explain the notes of slots near a change of the clock.
var noteWords = map[client.TickNote]string{
	client.TickNoteMovedGap:          "the clock jumps over this time; due at the end of the gap",
	client.TickNoteSkippedGap:        "the clock jumps over this time; not due",
	client.TickNoteRepeated:          "the clock shows this time for the second time",
	client.TickNoteRepetitionLeftOut: "the clock shows this time once more; not due again",
}

// noteOf explains the note of a tick; empty: it has none.
func noteOf(n *client.TickNote) string {
	if n == nil {
		return ""
	}
	if words := noteWords[*n]; words != "" {
		return words
	}
	return web.Words(string(*n))
}
