package web

import (
	"cmp"
	"encoding/json"
	"html"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
)

// FromTo returns the sentence for one thing that changes; "" stands for no value.
func FromTo(what, from, to string) template.HTML {
	what = strings.ReplaceAll(Capital(what), "%", "%%")
	switch {
	case from == "":
		return Sentence(what+" is set to %s (currently none).", to)
	case to == "":
		return Sentence(what+" is removed (currently %s).", from)
	}
	return Sentence(what+" changes from %s to %s.", from, to)
}

// plannedWords are the words that people use for the members of a planned change.
var plannedWords = map[string]string{
	"state":               "the state",
	"status":              "the status",
	"current_step":        "the current step",
	"deadline":            "the deadline",
	"end_cause":           "the reason for compensating",
	"failures":            "the number of failed attempts that the retry policy counts",
	"next_run_at":         "the next attempt",
	"attention_reason":    "the reason for needing attention",
	"order":               "the decision about the current step",
	"cancel_requested_at": "the request to stop",
	"content":             "the content",
	"revision":            "the revision that is sent",
	"paused_at":           "the time when it was paused",
	"paused_until":        "the end of the pause",
	"next_due_at":         "the next slot",
	"spec_version":        "the version of the definition",
	"drain_at":            "the start of draining",
	"lost_at":             "the time when it was lost",
	"detached_at":         "the time when it was detached",
	"alive":               "whether there is a leader",
	"node":                "the leader",
	"reason":              "the reason",
	"held_by":             "the holder",
	"rate_per_s":          "the rate per second",
	"workflow_version":    "the version of the workflow",
	"next_attempt_at":     "the next attempt",
	"ended_at":            "the end",
	"tenant_id":           "the tenant",
	"expires_at":          "the expiry",

	"former_secret_expires_at": "the expiry of the previous secret",
}

// records are members that state who performed the requested change, and when. A plan mentions them
// only if they were already set: it is obvious that the visitor will have performed it now.
var records = []string{"held_by", "approved_by", "approved_by_name", "revoked_at", "revoked_by", "disabled_at",
	"disabled_reason"}

// plannedKinds are the words that people use for the things that planned changes count.
var plannedKinds = map[client.PlannedChangeOf]string{
	client.PlannedChangeOfSaga: "saga", client.PlannedChangeOfDeadLetter: "letter", client.PlannedChangeOfJobRun: "run",
	client.PlannedChangeOfStepLog: "step log", client.PlannedChangeOfAuditEvent: "audit event",
	client.PlannedChangeOfWebhookDelivery: "webhook delivery",
}

// plannedStates are the words that people use for the states of things that are on or off.
var plannedStates = map[string]map[string]string{
	"enabled": {"true": "enabled", "false": "disabled"},
	"paused":  {"true": "paused", "false": "active"},
	"alive":   {"true": "yes", "false": "no"},
}

// Planned describes what an action changes according to its dry run, each with the old and new
// value, but without start times. fields are the fields of the action's form; their names and units
// are used for the members that they set.
func Planned(changes []client.PlannedChange, fields ...Field) (all []template.HTML) {
	for i := range changes {
		c := &changes[i]
		if c.Member == "since" || strings.HasSuffix(c.Member, "reason") && c.To != nil && reasonIn(*c.To) == PreviewReason ||
			c.From == nil && slices.Contains(records, c.Member) {
			continue
		}
		all = append(all, plannedSentence(c, fields))
	}
	return all
}

// reasonIn returns the reason that a person has written, without the name that the API may put in
// front: "ada holds it: tests".
func reasonIn(text string) string {
	if _, written, after := strings.Cut(text, " holds it: "); after {
		return written
	}
	return text
}

// PlannedText is Planned as a single text without markup, for a cell of a table.
func PlannedText(changes []client.PlannedChange) string {
	var all []string
	for _, sentence := range Planned(changes) {
		all = append(all, html.UnescapeString(markup.Replace(string(sentence))))
	}
	return strings.Join(all, " ")
}

// markup matches what Sentence writes around its arguments.
var markup = strings.NewReplacer("<code>", "", "</code>", "")

// Planned is the preview for a dry run that only contains changes.
func (a *Action) Planned(answer []byte) (*Preview, error) {
	var dry struct{ Changes []client.PlannedChange }
	if err := json.Unmarshal(answer, &dry); err != nil {
		return nil, err
	}
	shown := &Preview{Sentences: Planned(dry.Changes, a.Fields...)}
	if shown.Sentences == nil {
		shown.Ends = "Nothing changes."
	}
	return shown, nil
}

// said formats a value as shown in the form.
func (f *Field) said(value string) string {
	for _, o := range f.Options {
		if o.Value == value {
			return o.Label
		}
	}
	value = strings.TrimSpace(value)
	switch f.Kind {
	case "check":
		return map[bool]string{true: "yes", false: "no"}[value != "" && value != "false"]
	case "span":
		return SpanOf(value)
	case "lines":
		var lines []string
		if json.Unmarshal([]byte(value), &lines) == nil {
			return strings.Join(lines, ", ")
		}
	}
	return strings.Join(strings.Fields(value), " ")
}

// plannedField describes a change to the member that one of the fields sets, or returns "" if no
// field sets it.
func plannedField(c *client.PlannedChange, fields []Field) template.HTML {
	if c.Count != nil {
		return ""
	}
	for i := range fields {
		f := &fields[i]
		within, inner := strings.CutPrefix(c.Member, f.Name+".")
		if f.Label == "" || c.Member != f.Name && !(inner && f.Kind == "json") {
			continue
		}
		what, text := f.Label, func(value *string) string {
			if value == nil {
				return ""
			}
			return f.said(*value)
		}
		if inner {
			what += ": " + within
		}
		return FromTo(what, text(c.From), text(c.To))
	}
	return ""
}

func plannedSentence(c *client.PlannedChange, fields []Field) template.HTML {
	if said := plannedField(c, fields); said != "" {
		return said
	}
	from, to := plannedValue(c, c.From), plannedValue(c, c.To)
	many, verb := "", "changes"
	if c.Count != nil && c.Of != nil {
		if many = manyOf(*c.Count, *c.Of); *c.Count != 1 {
			verb = "change"
		}
	}
	who := strings.ReplaceAll(cmp.Or(many, "It"), "%", "%%") + " " + verb
	switch c.Member {
	case "held_by":
		if c.To == nil {
			return Sentence("It is no longer held by %s.", from)
		}
	case "enabled", "paused":
		return FromTo("the state", from, to)
	case "deleted_at":
		return Sentence(who+" from %s to %s.", "live", "deleted")
	case "place":
		return Sentence(who+" from %s to %s.", from, to)
	case "active": // of a key or a session
		return Sentence(who+" from %s to %s.", "active", "ended")
	case "new_delivery":
		return Sentence("A new delivery is created; it is %s.", to)
	case "secret":
		return Sentence("A new secret replaces the one of %s.", from)
	case "former_secret_expires_at":
		if c.To != nil {
			return Sentence("The previous secret is valid until %s.", to)
		}
	case "attention_reason":
		if c.To == nil {
			return Sentence(who+" from needing attention (%s) to not needing it.", Words(from))
		}
	case "suspended_at":
		if c.To != nil {
			return Sentence(who + " from not suspended to suspended.")
		}
		return Sentence(who+" from suspended (since %s) to not suspended.", from)
	case "new_run":
		if c.Count != nil && *c.Count != 1 {
			return Sentence(Count(*c.Count) + " new runs are created and wait for workers.")
		}
		return "A new run is created and waits for a worker."
	case "cancel_requested_at":
		if c.To != nil && many == "" {
			return "Its worker is asked to stop."
		} else if c.To != nil {
			return Sentence("The workers of " + strings.ReplaceAll(many, "%", "%%") + " are asked to stop.")
		}
	}
	what := plannedWords[c.Member]
	if what == "" { // the server is newer
		what = Words(c.Member)
	}
	if many != "" {
		what += " of " + many
	}
	return FromTo(what, from, to)
}

// manyOf formats a number of things in words.
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

// plannedValue formats a value of a planned change for people.
func plannedValue(c *client.PlannedChange, value *string) string {
	switch {
	case value == nil && c.Member == "tenant_id":
		return "any"
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
	case "state", "status", "new_run", "new_delivery":
		return BadgeOf(*value).Word
	}
	return cmp.Or(plannedStates[c.Member][*value], *value)
}
