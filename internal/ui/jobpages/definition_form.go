package jobpages

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// definitionFields returns the fields for the members of a definition. Empty fields mean the
// default. A member that is not listed here is the last field of the form.
func definitionFields() []web.Field {
	fields := []web.Field{
		{Group: "What runs", Name: "name", Label: "Name", Required: true},
		{Name: "description", Label: "Description"},
		{Name: "command_name", Label: "Command for the worker to run", Required: true, Hint: "report"},
		{Name: "default_args", Label: "Arguments", Hint: `{"depth": 1}`},
		{Name: "args_schema", Label: "JSON Schema of the arguments", Hint: `{"type": "object"}`},
		{Group: "When", Name: "type", Label: "Runs are created", Kind: "select", Options: web.Labelled(
			"time", "by a schedule", "event", "by events", "manual", "only manually")},
		{Name: "schedule.type", Label: "Schedule", Kind: "select", Options: web.Labelled(
			"daily_at", "each day at: 02:30", "weekdays_at", "Monday to Friday at: 09:00",
			"weekly_at", "each week on: MON 09:00", "hourly_at_minute", "each hour at minute: 0,30",
			"every_n_minutes", "every n minutes: 15", "interval", "interval: 90s", "cron", "cron: 30 2 * * *")},
		{Name: "schedule.value", Label: "When, in the format of the schedule", Hint: "02:30"},
		{Name: "schedule.timezone", Label: "Time zone", Hint: "such as Europe/Berlin or UTC"},
		{Name: "schedule.dst_gap", Label: "Times skipped by a clock change", Kind: "select", Options: web.Labelled(
			"", "due at the end of the gap", "skip", "not due")},
		{Name: "schedule.dst_overlap", Label: "Times repeated by a clock change", Kind: "select", Options: web.Labelled(
			"", "due the first time", "both", "due both times")},
		{Name: "schedule.start_at", Label: "Not before", Hint: "2027-01-01T00:00:00Z"},
		{Name: "schedule.end_at", Label: "Not at or after", Hint: "2028-01-01T00:00:00Z"},
		{Name: "event.event_type", Label: "Events", Hint: "order.paid or order.*"},
		{Name: "event.match", Label: "Only events whose payload contains", Hint: `{"order.region": "eu"}`},
		{Name: "event.args_from", Label: "Arguments from an event", Kind: "select", Options: web.Labelled(
			"", "id, type, payload and times", "payload", "only the payload")},
		{Name: "jitter_ms", Label: "Random delay after the slot, at most", Hint: "0"},
		{Group: "Where", Name: "queue", Label: "Queue", Hint: "default"},
		{Name: "priority", Label: "Priority, -100 to 100; higher first", Hint: "0"},
		{Name: "required_labels", Label: "Labels required of the worker", Hint: `{"zone": "a"}`},
		{Name: "labels", Label: "Labels of the job", Hint: `{"team": "finance"}`},
		{Group: "Overlap", Name: "concurrency_policy", Label: "A run that becomes due while another is active",
			Kind: "select", Options: web.Labelled("allow", "also runs", "forbid", "is skipped", "queue", "waits",
				"replace", "cancels the other")},
		{Name: "concurrency_key", Label: "Key shared with other jobs", Hint: "its own"},
		{Name: "queue_limit", Label: "Maximum waiting runs (0: unlimited)", Hint: "0"},
		{Name: "retry_holds_key", Label: "A waiting retry blocks the next slot", Kind: "check"},
		{Group: "Missed slots", Name: "misfire_policy", Label: "Overdue slots", Kind: "select", Options: web.Labelled(
			"skip", "are skipped", "fire_once", "only the newest runs", "catch_up", "all run, oldest first")},
		{Name: "misfire_grace_ms", Label: "Overdue after (0: from the settings)", Hint: "0"},
		{Name: "catch_up_limit", Label: "Maximum overdue slots to run", Hint: "100"},
		{Group: "Failures", Name: "retry.max_attempts", Label: "Maximum runs, including retries", Hint: "1"},
		{Name: "retry.initial_interval_ms", Label: "First wait", Hint: "1 s"},
		{Name: "retry.max_interval_ms", Label: "Longest wait", Hint: "10 min"},
		{Name: "retry.multiplier", Label: "Backoff multiplier", Hint: "2"},
		{Name: "retry.jitter", Label: "Jitter (0 to 1)", Hint: "0.2"},
		{Name: "timeout_ms", Label: "Timeout of an attempt (0: none)", Hint: "0"},
		{Name: "max_losses", Label: "Lost assignments allowed (0: from the settings)", Hint: "0"},
		{Name: "dead_letter", Label: "A run that gave up becomes a dead letter", Options: web.Labelled(
			"", "if created by an event or a saga", "true", "yes", "false", "no")},
		{Name: "emit", Label: "Kafka topics for events emitted by its runs", Hint: `[{"event_type": "report.*", "topic": "reports"}]`},
		{Group: "State", Name: "enabled", Label: "Enabled", Options: web.YesNo, Value: "true"},
	}
	for i, f := range fields {
		fields[i].Rare = slices.Contains(rarelySet, f.Name)
	}
	return web.FieldsOf[client.JobDefinitionInput](fields, "reason")
}

// rarelySet lists the members of a definition that most jobs leave at their defaults.
var rarelySet = []string{
	"description", "args_schema", "schedule.dst_gap", "schedule.dst_overlap", "schedule.start_at", "schedule.end_at",
	"event.match", "event.args_from", "jitter_ms", "required_labels", "labels", "concurrency_key", "queue_limit",
	"retry_holds_key", "misfire_grace_ms", "catch_up_limit", "retry.max_interval_ms", "retry.multiplier", "retry.jitter",
	"max_losses", "dead_letter", "emit",
}

// definitionBody omits the members of other types.
func definitionBody(form web.Form, body map[string]any) error {
	if form["type"] != string(client.JobTypeTime) {
		delete(body, "schedule")
	}
	if form["type"] != string(client.JobTypeEvent) {
		delete(body, "event")
	}
	return nil
}

// foreseen describes when a definition is due.
func (p *pages) foreseen(ctx context.Context, body []byte) (*web.Preview, error) {
	var d client.JobDefinition
	if err := json.Unmarshal(body, &d); err != nil {
		return nil, web.Malformed("A field has a value of the wrong type, such as an invalid time.")
	}
	if (d.Type == client.JobTypeTime || d.Type == "") && (d.Schedule == nil || d.Schedule.Value == "") {
		return &web.Preview{Ends: "It has no schedule yet."}, nil
	}
	if d.Schedule == nil || d.Schedule.Value == "" {
		return &web.Preview{Ends: web.Sentence("It runs %s.", dueWords(&client.JobDefinition{Event: d.Event}))}, nil
	}
	count := 10
	res, err := p.kit.Client.PreviewScheduleWithResponse(
		ctx, client.PreviewScheduleJSONRequestBody{Schedule: *d.Schedule, Count: &count},
	)
	if err != nil {
		return nil, err
	}
	list, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	shown := &web.Preview{Heads: []string{list.Timezone, "UTC", "Clock change"}}
	shown.Ends = web.Sentence("It is due %s. Next times:", scheduleWords(d.Schedule))
	for _, t := range ticksOf(list) {
		row := []string{t.Local, t.At.UTC().Format("2006-01-02 15:04:05"), t.Note}
		if t.Omitted {
			row[1] = "not due"
		}
		shown.Rows = append(shown.Rows, row)
	}
	if len(list.Ticks) == 0 {
		shown.Ends = web.Sentence("It is due %s, but no future slots remain.", scheduleWords(d.Schedule))
	}
	return shown, nil
}

func (p *pages) create(*web.Visit) (*web.Action, error) {
	a := &web.Action{
		Label: "Create", Title: "New job", Nav: "Jobs", Back: web.Link{Name: "Jobs", URL: "/ui/jobs"},
		Needs: "jobs:admin", Fields: definitionFields(), Body: definitionBody, Foresee: p.foreseen,
		DryRun: web.DryRunInQuery,
		Means:  "A job defines what to run, when and how. It takes effect immediately; past slots are not run.",
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.CreateJobDefinitionWithBody(ctx, &client.CreateJobDefinitionParams{}, web.JSON, body, edit)
		},
		Done: definitionAnswered,
	}
	return a, nil
}

// definitionAnswered returns the path of the page for the definition in a response.
func definitionAnswered(answer []byte) string {
	var d client.JobDefinition
	if json.Unmarshal(answer, &d) != nil {
		return "/ui/jobs"
	}
	return definitionPath(&d)
}

func (p *pages) edit(v *web.Visit) (*web.Action, error) {
	d, tag, raw, err := p.got(v)
	if err != nil {
		return nil, err
	}
	a := p.actionOn(d, tag, "Save", "Edit "+d.Name, "jobs:admin", web.Changes)
	if v.May(a.Needs) && !v.May("payloads:read") {
		a.Needs = "payloads:read" // otherwise hidden content would be overwritten with its placeholder
	}
	a.Means = "Existing runs keep the previous definition. If the schedule has changed, the new slots apply from now on."
	a.Fields, a.Body, a.Foresee, a.NoKey = filled(definitionFields(), raw), definitionBody, p.foreseen, true
	a.Edits = true
	a.Done = definitionAnswered
	a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
		return p.kit.Client.ReplaceJobDefinitionWithBody(
			ctx, d.ID.String(), &client.ReplaceJobDefinitionParams{}, web.JSON, body, edit,
		)
	}
	return a, nil
}

// filled sets the fields of a form to the values in a document. Numbers keep their digits.
func filled(fields []web.Field, document []byte) []web.Field {
	values := map[string]json.RawMessage{}
	flatten(values, "", document, 2)
	for i := range fields {
		raw, ok := values[fields[i].Name]
		if !ok {
			continue
		}
		var text string
		switch {
		case fields[i].Kind == "json":
			var pretty bytes.Buffer
			if json.Indent(&pretty, raw, "", "  ") == nil {
				text = pretty.String()
			}
		case json.Unmarshal(raw, &text) == nil:
		case fields[i].Kind == "check":
			if yes, _ := strconv.ParseBool(string(raw)); yes {
				text = "true"
			}
		case fields[i].Kind == "span":
			text = web.SpanOf(string(raw))
		default:
			text = string(raw)
		}
		fields[i].Value = text
	}
	return fields
}

// flatten collects the members of an object, with members of nested objects named "outer.inner".
func flatten(into map[string]json.RawMessage, prefix string, document []byte, depth int) {
	var members map[string]json.RawMessage
	if depth == 0 || json.Unmarshal(document, &members) != nil {
		return
	}
	for name, value := range members {
		into[prefix+name] = value
		flatten(into, prefix+name+".", value, depth-1)
	}
}
