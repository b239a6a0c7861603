package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/skald-saga/skald/api/client"
)

// Class determines how much confirmation an action requires.
type Class int

const (
	// Safe actions have an optional reason.
	Safe Class = iota
	// Changes require a reason.
	Changes
	// Dangerous actions require a reason, and the visitor must type the end of an id or a number.
	Dangerous
)

// DryRun states where an operation accepts dry_run.
type DryRun int

const (
	// NoDryRun means that the operation has no dry run, so the form describes its effect in words.
	NoDryRun DryRun = iota
	// DryRunInQuery means that dry_run is a query parameter.
	DryRunInQuery
	// DryRunInBody means that dry_run is a member of the body.
	DryRunInBody
)

// Action is an operation shown as a form on its own page, with its fields, a preview, the reason
// and, for dangerous operations, a text to type. Fields are optional unless a comment says
// otherwise.
type Action struct {
	Label string // label of the button, required: "Retry"
	Title string // title of the page, required: "Retry order 4711"
	Nav   string // current entry of the navigation, required
	Back  Link   // page that the visitor came from, required
	Class Class
	Needs string // the permission that the operation requires, required
	// Deployment means that the operation concerns all tenants, so that it also requires a
	// credential for all tenants.
	Deployment bool
	Means      string // a sentence that describes the effect
	Warning    string // for dangerous operations
	Confirm    string // for dangerous operations, required there: the text to type
	About      string // describes that text: "the last six characters of the saga's id"
	Fields     []Field
	// NoReason omits the reason for an operation that does not accept one.
	NoReason bool
	// ETag is the version for which the form was opened. The operation fails if that version has
	// changed. "" means that the operation accepts no If-Match.
	ETag string
	// Subject is the subject of these actions in the audit trail, with which a stale form shows who
	// changed it.
	Subject string
	// State is the current state in words, with which a stale form shows that it has changed.
	State string
	// Edits means that the fields contain the current values, so that a stale form shows which of
	// them have changed.
	Edits bool
	// NoKey omits the Idempotency-Key for an operation that does not accept one.
	NoKey bool

	DryRun DryRun
	// Body converts the body made from the fields before it is sent, for bodies that are not flat
	// objects. It may return a *Refusal.
	Body func(form Form, members map[string]any) error
	// Send sends the body; it is required. It passes edit to the client; edit adds headers and
	// dry_run.
	Send func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error)
	// Unready describes what must still be chosen. Until then, the form has no preview and cannot
	// be sent. It is optional and returns "" if nothing is missing.
	Unready func(form Form) string
	// Foresee reads what the preview shows in addition to the dry run. A *Refusal is shown in the
	// form.
	Foresee func(ctx context.Context, body []byte) (*Preview, error)
	// Ways describes what can be done about a problem. In a form that was not sent yet, this
	// replaces the problem. It is optional and returns nil if it does not know the problem.
	Ways func(ctx context.Context, problem *client.Problem) []template.HTML
	// Show converts the response to a dry run into a preview. It is optional; by default, the
	// changes are shown.
	Show func(answer []byte) (*Preview, error)
	// Done returns the path, below the base, to which the visitor is sent once the API has accepted
	// the action. It is required unless Result is set.
	Done func(answer []byte) string
	// Failed returns the path to which the visitor is sent if the API has done something but
	// responds with a problem, for example a retry that was made and failed. If it is empty, the
	// form is shown again.
	Failed func(status int, answer []byte) string
	// Result shows the response instead, for content that is shown only once (a new API key).
	Result func(answer []byte) (*Page, error)
	// Template is a page of the subject whose name begins with "action-". It may redefine
	// "action-fields" and "preview-extra"; the rest of the form is the same for all actions.
	Template string
	// Scripts lists scripts that only this form needs.
	Scripts []string
	// Extra is data for that template.
	Extra any
}

// PreviewReason is the reason sent with a dry run that requires one before the visitor has typed
// it. It is not shown.
const PreviewReason = "preview"

// Field is an input of an action's form, not including the reason.
type Field struct {
	// Name is the name of the member in the body, or "a.b" for a nested one.
	Name, Label, Hint string
	// Group starts a group of fields with that title; "" starts none.
	Group string
	// Rare fields of a group are folded.
	Rare bool
	// Kind is text (the default), span (a duration, for a member in milliseconds), json, lines (a
	// list of texts), long, check, number, select, bool (a select for true or false), secret or hidden.
	Kind     string
	Options  []Option // of a select or bool
	Value    string
	Required bool
	Problem  string // what the API reports about it
}

// Option is an option of a select.
type Option struct{ Value, Label string }

// Options makes options from constants of the API, which are shown as words.
func Options[T ~string](constants ...T) (all []Option) {
	for _, c := range constants {
		all = append(all, Option{Value: string(c), Label: Words(c)})
	}
	return all
}

// Labelled makes options from pairs of a value and its label.
func Labelled(pairs ...string) (all []Option) {
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, Option{Value: pairs[i], Label: pairs[i+1]})
	}
	return all
}

// YesNo contains the options for a parameter that is true or false.
var YesNo = []Option{{"true", "yes"}, {"false", "no"}}

// Form contains what a visitor has filled in, by field name.
type Form map[string]string

// Preview describes what an action would do.
type Preview struct {
	Sentences []template.HTML // in order; made by Sentence
	Ends      template.HTML   // the situation afterwards
	// Heads and Rows are a table below the sentences, for example of samples or counts; empty means
	// none. Things that Named finds in the table become links.
	Heads []string
	Rows  [][]string
	// Extra is data for the template "preview-extra" of the action's own page.
	Extra any
	// Count is the number of items that it would apply to, or nil if it is not a bulk operation.
	// See SendsCount.
	Count *int64
}

// SendsCount makes a form send the number shown in its preview as "expected". If there are more
// items by then, the operation halts. It wraps the Body and Show that a has at the time of the
// call.
func (a *Action) SendsCount(v *Visit) {
	seen, body, show := v.Form.Get("matched"), a.Body, a.Show
	a.Body = func(form Form, members map[string]any) error {
		if n, err := strconv.ParseInt(seen, 10, 64); err == nil && n >= 0 {
			members["expected"] = n
		}
		if body == nil {
			return nil
		}
		return body(form, members)
	}
	a.Show = func(answer []byte) (*Preview, error) {
		p, err := show(answer)
		if err == nil && p.Count != nil {
			seen = strconv.FormatInt(*p.Count, 10)
		}
		return p, err
	}
}

// Sentence is fmt.Sprintf for sentences of a page. Each argument is shown as code.
func Sentence(format string, args ...any) template.HTML {
	shown := make([]any, len(args))
	for i, a := range args {
		shown[i] = "<code>" + template.HTMLEscapeString(fmt.Sprint(a)) + "</code>"
	}
	return template.HTML(fmt.Sprintf(template.HTMLEscapeString(format), shown...)) //nolint:gosec // all parts are escaped
}

// Anchor returns a link to one of the pages for use within a sentence.
func (k *Kit) Anchor(path string, words template.HTML) template.HTML {
	page := template.HTMLEscapeString(k.Base + path)
	return template.HTML(`<a href="`+page+`">`) + words + "</a>" //nolint:gosec // it is escaped
}

// JSON is the content type of every body.
const JSON = "application/json"

// Emptied removes the values of emptied fields, because omitting a member would leave it unchanged.
// Members for which the form has no field are not changed. before contains the values at the time
// the form was opened.
func Emptied(form Form, members map[string]any, before map[string]*string) {
	for name, value := range before {
		filled, shown := form[name]
		if shown && members[name] == nil && strings.TrimSpace(filled) == "" && deref(value) != "" {
			members[name] = ""
		}
	}
}

// members makes the body from the form.
func (a *Action) members(form Form) (map[string]any, error) {
	body := map[string]any{}
	for _, f := range a.Fields {
		text := strings.TrimSpace(form[f.Name])
		if text == "" {
			continue
		}
		value, err := f.value(text)
		if err != nil {
			return nil, err
		}
		place(body, strings.Split(f.Name, "."), value)
	}
	if reason := strings.TrimSpace(form["reason"]); reason != "" && !a.NoReason {
		body["reason"] = reason
	}
	if a.Body != nil {
		if err := a.Body(form, body); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// value converts a text to a value for the body. Numbers keep their digits.
func (f Field) value(text string) (any, error) {
	switch f.Kind {
	case "json", "number":
		if !json.Valid([]byte(text)) {
			return nil, f.malformed("This is not " + map[string]string{"json": "JSON", "number": "a number"}[f.Kind] + ".")
		}
		return json.RawMessage(text), nil
	case "check":
		return true, nil
	case "bool":
		return text == "true", nil
	case "span":
		ms, ok := milliseconds(text)
		if !ok {
			return nil, f.malformed("Enter a duration with its unit, such as 500 ms, 30 s, 5 min, 2 h or 7 d.")
		}
		return json.RawMessage(ms), nil
	case "lines":
		var lines []string
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
		return lines, nil
	}
	return text, nil
}

func (f Field) malformed(detail string) *Refusal {
	r := Malformed(f.Label + ": " + detail)
	r.Errors = []client.ProblemField{{Pointer: "/" + strings.ReplaceAll(f.Name, ".", "/"), Message: detail}}
	return r
}

// place puts a value into nested objects.
func place(into map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		inner, ok := into[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			into[name] = inner
		}
		into = inner
	}
	into[path[len(path)-1]] = value
}

// request sends the form. As a dry run, it changes nothing.
func (a *Action) request(v *Visit, form Form, key, etag string, dry bool) (status int, answer []byte, err error) {
	body, err := a.members(form)
	if err != nil {
		return 0, nil, err
	}
	if dry {
		if a.DryRun == DryRunInBody {
			body["dry_run"] = true
		}
		if body["reason"] == nil && !a.NoReason && a.Class != Safe {
			body["reason"] = PreviewReason // required, but not recorded
		}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return 0, nil, fmt.Errorf("encode the body: %w", err)
	}
	res, err := a.Send(v.Context(), bytes.NewReader(raw), func(ctx context.Context, r *http.Request) error {
		if dry {
			if err := ChangesNothing(ctx, r); err != nil {
				return err
			}
		}
		if dry && a.DryRun == DryRunInQuery {
			q := r.URL.Query()
			q.Set("dry_run", "true")
			r.URL.RawQuery = q.Encode()
		}
		if !dry && !a.NoKey {
			r.Header.Set("Idempotency-Key", key)
		}
		if !dry && a.ETag != "" {
			r.Header.Set("If-Match", etag)
		}
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}
