package letterpages

import (
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// redriveForm is the data for a redrive form in addition to its fields: the parts to which they
// belong.
type redriveForm struct {
	Parts []formPart
}

// formPart is a heading with the names of its fields. Folded fields are unfolded if one of them has
// a value.
type formPart struct {
	Title, Means string
	Names        map[string]bool
	Fold         string          // id of the foldable part; empty: it does not fold
	More         map[string]bool // additional fields, which are folded
}

// redriveActions describe what a redrive does to each letter.
var redriveActions = []web.Option{
	{Value: "retry", Label: "retry them"}, {Value: "resolve", Label: "resolve them: handled elsewhere"},
	{Value: "discard", Label: "discard them"}, {Value: "requeue", Label: "requeue those that are dead"},
	{Value: "delete", Label: "delete them"},
}

// listed contains the filters that accept several values. Values of enums are separated by spaces
// or commas.
var (
	listedLines = []string{"header", "payload", "label"}
	listedWords = []string{"status", "source", "resolution", "error_class"}
	times       = []string{"created_from", "created_to", "last_retry_from", "last_retry_to"}
	numbers     = []string{"retry_count_min", "retry_count_max", "generation_min"}
)

// usualFilters is the number of filters that a redrive form always shows.
const usualFilters = 6

// filterFields returns the filters of the list of letters as fields of a redrive.
func filterFields(filled url.Values) (usual, more []web.Field) {
	all := append([]web.Filter{{Name: "status", Label: "Status", Hint: "depends on the action"}}, letterFilters...)
	for i, f := range all {
		field := web.Field{Name: "filter." + f.Name, Label: f.Label, Hint: f.Hint}
		switch {
		case slices.Contains(listedLines, f.Name):
			field.Kind = "lines"
		case slices.Contains(numbers, f.Name):
			field.Kind = "number"
		case slices.Contains(listedWords, f.Name) && f.Options != nil:
			if !strings.ContainsAny(filled.Get(field.Name), ", \r\n") { // with several values it stays a text field
				field.Kind, field.Options = "select", append(web.Labelled("", "any"), f.Options...)
			}
		}
		if i <= usualFilters {
			usual = append(usual, field)
		} else {
			more = append(more, field)
		}
	}
	return usual, more
}

// howFields are the fields for the speed and the safeguards of a redrive.
var howFields = []web.Field{
	{Name: "rate_per_second", Label: "Letters per second", Kind: "number", Hint: "50"},
	{Name: "order", Label: "Order", Kind: "select", Options: []web.Option{
		{Label: "oldest first, in parallel"}, {Value: "per_key", Label: "in order for each key"},
	}},
	{Name: "concurrency", Label: "Concurrent requests per node", Kind: "number", Hint: "8"},
	{Name: "canary.count", Label: "Canary: letters to send first", Kind: "number", Hint: "none"},
	{Name: "canary.watch_seconds", Label: "Canary: seconds to watch for returns", Kind: "number", Hint: "0"},
	{Name: "canary.max_bounce_ratio", Label: "Canary: fraction that may come back", Kind: "number", Hint: "0"},
	{Name: "stop_on.failures", Label: "Halt after failures", Kind: "number", Hint: "never"},
	{Name: "stop_on.failure_ratio", Label: "Halt above a failure ratio", Kind: "number", Hint: "never"},
}

var whenFields = []web.Field{
	{Name: "max_messages", Label: "Maximum letters", Kind: "number", Hint: "all"},
	{Name: "scheduled_for", Label: "Not before", Hint: "2h, or 2026-11-23T22:00:00Z"},
	{Name: "include_later", Label: "Include letters that arrive before it begins", Kind: "check"},
	{Name: "approval_required", Label: "Requires approval by another person", Kind: "check"},
}

var targetFields = []web.Field{
	{Name: "force", Label: "Also retry dead letters", Kind: "check"},
	{Name: "target.kind", Label: "A different target for all of them", Kind: "select", Options: []web.Option{
		{Label: "each letter's own"}, {Value: "kafka", Label: "a Kafka topic"}, {Value: "http", Label: "a URL"},
	}},
	{Name: "target.topic", Label: "Its topic"}, {Name: "target.url", Label: "Its URL", Hint: "https://"},
	{Name: "transform", Label: "Change to every payload (JSON Patch), tested on the samples", Kind: "json",
		Hint: `[{"op": "replace", "path": "/customer", "value": "c-18"}]`},
}

// operatorsMost is the maximum number of letters in a redrive by a user without dlq:admin.
const operatorsMost = 1000

// newRedrive is the form for starting a redrive. It is filled in from the URL.
func (p *pages) newRedrive(v *web.Visit) (*web.Action, error) {
	if ids := v.Form["ids"]; len(ids) > 1 { // the checkboxes of a list
		v.Form.Set("ids", strings.Join(ids, "\n"))
	}
	if v.Form.Get("action") == "" {
		v.Form.Set("action", "retry")
	}
	action := v.Form.Get("action")
	usual, more := filterFields(v.Form)
	x := redriveForm{}
	a := &web.Action{
		Label: "Create the redrive", Title: "New redrive", Nav: "Redrives", Template: "action-redrive",
		Back: web.Link{Name: "Redrives", URL: "/ui/redrives"}, Class: web.Changes, Needs: "dlq:write",
		Means: "It applies to the letters that match now; the rate applies to all nodes together. If more letters match when it " +
			"begins than the preview counted, it halts before the first. It begins immediately unless it must wait for a time " +
			"or an approval. It can be paused, changed and canceled at any time.",
		DryRun: web.DryRunInBody, Extra: &x, Unready: redriveUnready,
	}
	added := func(fields []web.Field) map[string]bool {
		names := map[string]bool{}
		for _, f := range fields {
			names[f.Name] = true
		}
		a.Fields = append(a.Fields, slices.Clone(fields)...)
		return names
	}
	part := func(title, means, fold string, fields ...web.Field) {
		x.Parts = append(x.Parts, formPart{Title: title, Means: means, Names: added(fields), Fold: fold})
	}
	part("What", "", "", web.Field{Name: "action", Label: "What to do", Kind: "select", Options: redriveActions})
	if v.Form.Has("ids") {
		part("Which letters", "The selected letters, one ID per line.", "",
			web.Field{Name: "ids", Label: "Letters", Kind: "lines"})
	} else {
		part("Which letters", "Letters that match all of these filters.", "",
			append(usual, web.Field{Name: "all", Label: "Every letter, ignoring the filters", Kind: "check"})...)
		x.Parts[len(x.Parts)-1].More = added(more)
	}
	part("Rate and safeguards", "The canary is sent first and watched; the rest follows only if its letters do not come back.", "", howFields...)
	part("When", "", "", whenFields...)
	part("Different target or content", "For retries only.", "target", targetFields...)
	seen := v.Form.Get("matched") // the number of letters that the visitor has seen
	a.Body = func(form web.Form, members map[string]any) error {
		if n, err := strconv.ParseInt(seen, 10, 64); err == nil && n >= 0 {
			members["expected"] = n
		}
		return redriveBody(v.Now, form, members)
	}
	a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
		return p.kit.Client.CreateRedriveWithBody(ctx, &client.CreateRedriveParams{}, web.JSON, body, edit)
	}
	a.Show = func(answer []byte) (*web.Preview, error) {
		shown, n, err := p.showRedrive(v, answer)
		seen = strconv.FormatInt(n, 10)
		if action == "delete" || action == "discard" {
			a.Confirm = seen
		}
		return shown, err
	}
	if action == "delete" || action == "discard" {
		a.Class, a.About = web.Dangerous, "the number of letters"
		a.Warning = "Discarded letters are no longer retried. Deleted letters cannot be restored."
		if v.Method == http.MethodPost {
			a.Confirm = confirmed(v.Form.Get("matched"))
		}
	}
	if !v.May("dlq:admin") && v.Form.Get("max_messages") == "" {
		v.Form.Set("max_messages", strconv.Itoa(operatorsMost))
	}
	a.Done = func(answer []byte) string { return redrivePath(answer) }
	return a, nil
}

// redriveUnready describes what must still be chosen in the form for a redrive, namely the letters.
func redriveUnready(form web.Form) string {
	for name, value := range form {
		chooses := name == "ids" || name == "all" || strings.HasPrefix(name, "filter.")
		if chooses && strings.TrimSpace(value) != "" {
			return ""
		}
	}
	return "Choose which letters: fill in a filter, or tick “Every letter”."
}

// redriveBody makes the body of a redrive from the form.
func redriveBody(now time.Time, form web.Form, members map[string]any) error {
	filter, _ := members["filter"].(map[string]any)
	for _, name := range listedWords {
		if words, ok := filter[name].(string); ok {
			filter[name] = strings.FieldsFunc(words, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' })
		}
	}
	for _, name := range times {
		if at, ok := web.Relative(now, form["filter."+name]); ok {
			filter[name] = at.UTC().Format(time.RFC3339)
		}
	}
	if at, ok := web.Relative(now, form["scheduled_for"]); ok {
		members["scheduled_for"] = at.UTC().Format(time.RFC3339)
	}
	return nil
}

// confirmed returns a number that the visitor must type.
func confirmed(count string) string {
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil || n < 0 {
		return "the number of letters"
	}
	return strconv.FormatInt(n, 10)
}

func redrivePath(answer []byte) string {
	var r client.Redrive
	if json.Unmarshal(answer, &r) != nil {
		return "/ui/redrives"
	}
	return "/ui/redrives/" + r.ID.String()
}

// redriveShown is the preview of a redrive.
type redriveShown struct {
	Matched int64
	Tables  []countTable
	Samples []sample
}

// countTable contains counts by name, largest first.
type countTable struct {
	Title string
	Rows  []countRow
}

type countRow struct {
	Name, URL string
	Count     int64
}

// sample is a letter that a redrive would take, with its payload before and after the
// transformation.
type sample struct {
	client.DeadLetter
	Tried   bool
	Changes []operation
	Problem string
}

// triedSamples is the number of samples to which the transformation is applied.
const triedSamples = 5

// showRedrive describes what a redrive would do.
func (p *pages) showRedrive(v *web.Visit, answer []byte) (*web.Preview, int64, error) {
	var dry client.RedrivePreview
	if err := json.Unmarshal(answer, &dry); err != nil {
		return nil, 0, err
	}
	shown := &web.Preview{}
	say := func(s template.HTML) { shown.Sentences = append(shown.Sentences, s) }
	switch dry.Matched {
	case 0:
		say("No letters match. The redrive would end immediately.")
	case 1:
		say(web.Sentence("%s letter matches.", 1))
	default:
		say(web.Sentence("%s letters match.", web.Count(dry.Matched)))
	}
	shown.Sentences = append(shown.Sentences, web.Planned(dry.Changes)...)
	if dry.BlockedKeys > 0 {
		say(web.Sentence("Blocked keys: %s. Their topic is ordered, and an older open letter with the same key is not included. "+
			"Letters with these keys are skipped.", web.Count(dry.BlockedKeys)))
	}
	if n := len(dry.UnknownIds); n > 0 {
		say(web.Sentence("IDs that do not belong to live letters: %s.", n))
	}
	shown.Sentences = append(shown.Sentences, p.overlapping(dry.Overlaps)...)
	more := redriveShown{Matched: dry.Matched, Tables: []countTable{
		counts("By topic", dry.ByTopic, "/ui/dlq/topics/"), counts(byGroup, dry.ByGroup, "/ui/dlq/groups/"),
		counts("By status", dry.ByStatus, ""),
	}}
	transform := strings.TrimSpace(v.Form.Get("transform"))
	for i, l := range dry.Sample {
		s := sample{DeadLetter: l}
		if transform != "" && i < triedSamples {
			s.Tried = true
			if err := p.try(v, &s, transform); err != nil {
				return nil, 0, err
			}
		}
		more.Samples = append(more.Samples, s)
	}
	shown.Extra = more
	return shown, dry.Matched, nil
}

// try applies a transformation to the payload of a sample.
func (p *pages) try(v *web.Visit, s *sample, transform string) error {
	res, err := p.kit.Client.GetDeadLetterWithResponse(v.Context(), s.ID, &client.GetDeadLetterParams{})
	if err != nil {
		return err
	}
	l, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if web.NotFound(err) {
		s.Problem = "The letter no longer exists."
		return nil
	}
	if err != nil {
		return err
	}
	if l.PayloadEncoding == nil || *l.PayloadEncoding != client.DeadLetterEncodingJSON {
		s.Problem = "The payload is not JSON: this letter would fail."
		return nil
	}
	patch, err := jsonpatch.DecodePatch([]byte(transform))
	if err != nil {
		s.Problem = "This is not a valid JSON Patch."
		return nil
	}
	options := jsonpatch.NewApplyOptions()
	options.SupportNegativeIndices, options.EscapeHTML, options.AccumulatedCopySizeLimit = false, false, shown
	after, err := patch.ApplyWithOptions(l.Payload, options)
	if err == nil {
		s.Changes, err = difference(l.Payload, after)
	}
	if err != nil {
		s.Problem = fmt.Sprintf("The patch does not apply: %v. This letter would fail.", err)
	}
	return nil
}

const byGroup = "By group, largest first"

func counts(title string, byName client.CountsByName, path string) countTable {
	t := countTable{Title: title}
	for name, n := range byName {
		row := countRow{Name: name, Count: n}
		if title == byGroup {
			row.Name = web.Short(name)
		}
		if path != "" {
			row.URL = path + url.PathEscape(name)
		}
		t.Rows = append(t.Rows, row)
	}
	slices.SortFunc(t.Rows, func(a, b countRow) int {
		if a.Count != b.Count {
			return int(b.Count - a.Count)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return t
}
