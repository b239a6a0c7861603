package web

import (
	"cmp"
	"html/template"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
)

// plannedWords is how people call the members of a planned change.
var plannedWords = map[string]string{
	"state":               "the state",
	"status":              "the status",
	"current_step":        "the current step",
	"deadline":            "the deadline",
	"end_cause":           "the reason to compensate",
	"failures":            "the count of failed attempts for the retry policy",
	"next_run_at":         "the next attempt",
	"attention_reason":    "what needs attention",
	"order":               "the decision about the current step",
	"cancel_requested_at": "the time when the worker was asked to stop",
	"place":               "the place",
	"content":             "the content",
}

// plannedKinds is how people call the things that planned changes count.
var plannedKinds = map[client.PlannedChangeOf]string{
	client.PlannedChangeOfSaga: "saga", client.PlannedChangeOfDeadLetter: "letter", client.PlannedChangeOfJobRun: "run",
	client.PlannedChangeOfStepLog: "step log", client.PlannedChangeOfAuditEvent: "audit event",
	client.PlannedChangeOfWebhookDelivery: "webhook delivery",
}

// Planned says what a dry run says that an action changes, each from what to what.
func Planned(changes []client.PlannedChange) (all []template.HTML) {
	for i := range changes {
		all = append(all, plannedSentence(&changes[i]))
	}
	return all
}

func plannedSentence(c *client.PlannedChange) template.HTML {
	from, to := plannedValue(c, c.From), plannedValue(c, c.To)
	many, verb := "", "changes"
	if c.Count != nil && c.Of != nil {
		if many = manyOf(*c.Count, *c.Of); *c.Count != 1 {
			verb = "change"
		}
	}
	switch c.Member {
	case "suspended_at":
		who := strings.ReplaceAll(cmp.Or(many, "It"), "%", "%%") + " " + verb
		if c.To != nil {
			return Sentence(who + " from not suspended to suspended.")
		}
		return Sentence(who+" from suspended (since %s) to not suspended.", from)
	case "new_run":
		what := "the state of 1 new run"
		if c.Count != nil && *c.Count != 1 {
			what = "the state of " + Count(*c.Count) + " new runs"
		}
		return FromTo(what, from, to)
	}
	what := plannedWords[c.Member]
	if what == "" { // a server that is newer
		what = Words(c.Member)
	}
	if many != "" {
		what += " of " + many
	}
	return FromTo(what, from, to)
}

// manyOf is a number of things, in words.
func manyOf(n int64, of client.PlannedChangeOf) string {
	kind := plannedKinds[of]
	switch {
	case kind == "":
		kind = string(of)
	case of == client.PlannedChangeOfWebhookDelivery && n != 1:
		kind = "webhook deliveries"
	case n != 1:
		kind += "s"
	}
	return Count(n) + " " + kind
}

// plannedValue is a value of a planned change as people read it.
func plannedValue(c *client.PlannedChange, value *string) string {
	switch {
	case value == nil && c.Member == "next_run_at":
		return "now"
	case value == nil && c.Member == "place":
		return "deleted"
	case value == nil && c.Member == "content":
		return "erased"
	case value == nil:
		return ""
	}
	if at, err := time.Parse(time.RFC3339, *value); err == nil {
		shown := at.UTC().Format("2006-01-02 15:04:05") + " UTC"
		if c.Count != nil && *c.Count > 1 {
			shown += " (the earliest)"
		}
		return shown
	}
	switch c.Member {
	case "state", "status", "new_run":
		return BadgeOf(*value).Word
	}
	return *value
}
