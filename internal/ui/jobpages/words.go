package jobpages

import (
	"fmt"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// scheduleWords describes when a schedule fires.
func scheduleWords(s *client.JobSchedule) string {
	if s == nil {
		return ""
	}
	values := strings.Join(strings.Split(s.Value, ","), ", ")
	var text string
	switch s.Type {
	case client.ScheduleTypeInterval:
		text = "every " + s.Value
		if every, err := time.ParseDuration(s.Value); err == nil {
			text = "every " + web.Duration(every)
		}
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

// zoneOf returns the time zone in which a schedule is interpreted.
func zoneOf(s *client.JobSchedule) string {
	if s == nil || s.Timezone == nil || *s.Timezone == "" {
		return "UTC"
	}
	return *s.Timezone
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }

// dueWords describes what creates a definition's runs.
func dueWords(d *client.JobDefinition) string {
	switch {
	case d.Schedule != nil:
		return scheduleWords(d.Schedule)
	case d.Event != nil:
		return "on events " + d.Event.EventType
	}
	return "only manually"
}

// triggerWords describe what creates runs if the word differs from the API's.
var triggerWords = map[client.JobTrigger]string{
	client.JobTriggerTIME: "schedule", client.JobTriggerDLQ: "dead letter",
}

// createdBy describes what created a run.
func createdBy(t client.JobTrigger) string {
	if words := triggerWords[t]; words != "" {
		return words
	}
	return web.Words(t)
}

// triggerOf converts a trigger typed by a person to the API's spelling.
func triggerOf(typed string) string {
	typed = strings.TrimSpace(typed)
	for t, words := range triggerWords {
		if strings.EqualFold(typed, words) {
			return string(t)
		}
	}
	return strings.ToUpper(typed)
}

// overlapWords describe what happens to a run that becomes due while another one has not ended.
var overlapWords = map[client.JobConcurrencyPolicy]string{
	client.JobConcurrencyPolicyAllow:   "Any number of its runs may be in progress at the same time.",
	client.JobConcurrencyPolicyForbid:  "One run at a time: a run that becomes due while another is active is skipped.",
	client.JobConcurrencyPolicyReplace: "One run at a time: when a run becomes due, the active one is canceled first.",
	client.JobConcurrencyPolicyQueue:   "One run at a time: the others wait, in the order of their slots.",
}

// overlapShort contains shorter versions of overlapWords for lists.
var overlapShort = map[client.JobConcurrencyPolicy]string{
	client.JobConcurrencyPolicyAllow:   "runs may overlap",
	client.JobConcurrencyPolicyForbid:  "one at a time, others are skipped",
	client.JobConcurrencyPolicyReplace: "the newest replaces the running one",
	client.JobConcurrencyPolicyQueue:   "one at a time, others wait",
}

// keyWords describe what happens to a run while another one holds its key. What happens to the
// other runs depends on their policies, which may differ, for example for runs of a backfill.
var keyWords = map[client.JobConcurrencyPolicy]string{
	client.JobConcurrencyPolicyForbid:  "while another run holds it, this one is skipped",
	client.JobConcurrencyPolicyReplace: "this run cancels another run that holds it",
	client.JobConcurrencyPolicyQueue:   "while another run holds it, this one waits",
}

// waitWords describe what a run has been waiting for; the time since when follows in the text.
var waitWords = map[client.JobRunWaitReason]string{
	client.JobRunWaitReasonSlot:         "It has been waiting for its due time",
	client.JobRunWaitReasonBackoff:      "It has been waiting for its next attempt",
	client.JobRunWaitReasonKey:          "It has been waiting for its concurrency key",
	client.JobRunWaitReasonLeader:       "It has been waiting for a scheduler leader",
	client.JobRunWaitReasonWorker:       "It has been waiting for a worker that can take it",
	client.JobRunWaitReasonTurn:         "It has been waiting for its turn",
	client.JobRunWaitReasonStart:        "It has been waiting for its worker to start it",
	client.JobRunWaitReasonEnd:          "It has been running",
	client.JobRunWaitReasonConfirmation: "It has been waiting for its worker to confirm it",
	client.JobRunWaitReasonCancel:       "It has been waiting for its worker to stop",
	client.JobRunWaitReasonQueue:        "It has been waiting for its queue to be released",
}

// lateWords describe what happens to slots that are overdue.
var lateWords = map[client.JobMisfirePolicy]string{
	client.JobMisfirePolicySkip:     "Overdue slots are skipped.",
	client.JobMisfirePolicyFireOnce: "Only the newest overdue slot runs.",
	client.JobMisfirePolicyCatchUp:  "All overdue slots run, oldest first",
}

// policyWords returns sentences that describe how a definition's runs are created and retried.
func policyWords(d *client.JobDefinition) []string {
	overlap := overlapWords[d.ConcurrencyPolicy]
	if overlap == "" {
		overlap = "Overlap: " + string(d.ConcurrencyPolicy) + "."
	}
	if k := d.ConcurrencyKey; k != nil && *k != "" {
		overlap += " This applies to all definitions with the key " + *k + "."
	}
	if l := d.QueueLimit; l != nil && *l > 0 {
		overlap += fmt.Sprintf(" Maximum number of waiting runs: %d.", *l)
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
		all = append(all, "An attempt may take up to "+web.Milliseconds(*t)+".")
	}
	if j := d.JitterMS; j != nil && *j > 0 {
		all = append(all, "A scheduled run starts up to "+web.Milliseconds(*j)+" after its slot.")
	}
	return all
}

// retryWords describes how failed runs are retried.
func retryWords(r client.JobRetry) string {
	n := 1
	if r.MaxAttempts != nil && *r.MaxAttempts > 0 {
		n = *r.MaxAttempts
	}
	if n == 1 {
		return "A failed run is not retried."
	}
	text := fmt.Sprintf("A failed run is retried, up to %d runs in total", n)
	if r.InitialIntervalMS != nil && *r.InitialIntervalMS > 0 {
		text += "; the first retry waits " + web.Milliseconds(*r.InitialIntervalMS)
	}
	return text + "."
}

// noteWords explain the notes of slots near a clock change.
var noteWords = map[client.TickNote]string{
	client.TickNoteMovedGap:          "a time skipped by the clock change; due at the end of the gap",
	client.TickNoteSkippedGap:        "a time skipped by the clock change; not due",
	client.TickNoteRepeated:          "the second occurrence of this time",
	client.TickNoteRepetitionLeftOut: "a repeated time; not due again",
}

// noteOf explains the note of a tick, or returns "" if it has none.
func noteOf(n *client.TickNote) string {
	if n == nil {
		return ""
	}
	if words := noteWords[*n]; words != "" {
		return words
	}
	return web.Words(string(*n))
}
