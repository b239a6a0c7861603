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

// Class is how much confirmation an action requires.
type Class int

const (
	// Safe actions have an optional reason.
	Safe Class = iota
	// Changes require a reason.
	Changes
	// Dangerous actions require a reason, and the end of an id or a number to be typed.
	Dangerous
)

// DryRun is where an operation accepts dry_run.
type DryRun int

const (
	// NoDryRun: the operation has none; the form says what it does in words.
	NoDryRun DryRun = iota
	// DryRunInQuery: it is a parameter.
	DryRunInQuery
	// DryRunInBody: it is a member of the body.
	DryRunInBody
)

// Action is an operation as a form on its own page: its fields, a preview, the reason, and for dangerous
// ones a text to type. Fields are optional unless a comment says otherwise.
type Action struct {
	Label string // on the button, required: "Retry"
	Title string // of the page, required: "Retry order 4711"
	Nav   string // the entry of the navigation, required
	Back  Link   // where the visitor came from, required
	Class Class
	Needs string // the permission that the operation requires, required
	// Deployment means that it concerns all tenants, so it also requires a credential for any
	// tenant.
	Deployment bool
	Means      string // a sentence on what it does
	Warning    string // for dangerous ones
	Confirm    string // for dangerous ones, required there: what has to be typed
	About      string // what that is: "the last six characters of the saga's id"
	Fields     []Field
	// NoReason leaves out the reason, where the operation takes none.
	NoReason bool
	// ETag is the version that the form was opened for. The operation fails if that has changed. Empty: the
	// operation takes no If-Match.
	ETag string
	// Subject is the subject of the actions on it in the list of what people did: a stale form shows who changed it.
	Subject string
	// State is its present state, in words: a stale form shows that it has changed.
	State string
	// Edits means that the fields have the present values: a stale form shows which of them have changed.
	Edits bool
	// NoKey leaves out the Idempotency-Key, where the operation takes none.
	NoKey bool

	DryRun DryRun
	// Body changes the body made of the fields before it is sent, for bodies that are not flat objects. It
	// may return a *Refusal.
	Body func(form Form, members map[string]any) error
	// Send sends the body, required. It passes edit to the client; edit adds headers and dry_run.
	Send func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error)
	// Unready says what is still to be chosen: until then the form has no preview and cannot be sent. Optional; empty:
	// nothing.
	Unready func(form Form) string
	// Foresee reads what the preview has besides what the dry run says. A *Refusal is shown in the form.
	Foresee func(ctx context.Context, body []byte) (*Preview, error)
	// Ways says what can be done about a problem, in place of the problem itself in a form that was not sent yet.
	// Optional; nil: there is nothing to say about this one.
	Ways func(ctx context.Context, problem *client.Problem) []template.HTML
	// Show turns the answer to a dry run into a preview. Optional; default: its changes.
	Show func(answer []byte) (*Preview, error)
	// Done is the path below the base where the visitor goes once the API has accepted it, required unless
	// Result is given.
	Done func(answer []byte) string
	// Failed is the path where the visitor goes when the API has done something but answers with a problem, such as
	// a retry that was made and failed. Empty: the form is shown again.
	Failed func(status int, answer []byte) string
	// Result shows the answer instead, for content that is shown only once (a new API key).
	Result func(answer []byte) (*Page, error)
	// Template is a page of the subject whose name begins with "action-". It may redefine "action-fields"
	// and "preview-extra"; the rest of the form is the same everywhere.
	Template string
	// Scripts lists scripts that only this form needs.
	Scripts []string
	// Extra is for that template.
	Extra any
}

// PreviewReason is the reason of a dry run that needs one before a person has written it: it is not shown.
const PreviewReason = "preview"

// Field is an input of an action's form, beside the reason.
type Field struct {
	// Name of the member of the body, "a.b" for one within another.
	Name, Label, Hint string
	// Group begins a group of fields with that title; empty: none.
	Group string
	// Rare fields of a group are folded.
	Rare bool
	// Kind: text (the default), span (of time, for a member in milliseconds), json, lines (a list of texts), long, check,
	// number, select, secret, hidden.
	Kind     string
	Options  []Option // of a select
	Value    string
	Required bool
	Problem  string // what the API says about it
}

// Option of a select.
type Option struct{ Value, Label string }

// Options makes options of constants of the API, shown as words.
func Options[T ~string](constants ...T) (all []Option) {
	for _, c := range constants {
		all = append(all, Option{Value: string(c), Label: Words(c)})
	}
	return all
}

// Labelled makes options of pairs of a value and its label.
func Labelled(pairs ...string) (all []Option) {
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, Option{Value: pairs[i], Label: pairs[i+1]})
	}
	return all
}

// YesNo are the options of a parameter that is true or false.
var YesNo = []Option{{"true", "yes"}, {"false", "no"}}

// Form is what a visitor has filled in, by the names of the fields.
type Form map[string]string

// Preview is what an action would do.
type Preview struct {
	Sentences []template.HTML // in order; made by Sentence
	Ends      template.HTML   // the situation afterwards
	// Heads and Rows are a table below it, such as samples or counts; empty: none. What Named finds in them is a link.
	Heads []string
	Rows  [][]string
	// Extra is for the template "preview-extra" of the action's own page.
	Extra any
	// Count is how many items it would apply to; nil: it is not a bulk operation. See
	// SendsCount.
	Count *int64
}

// SendsCount makes a form send the number that its preview has shown, as "expected": if there are more by then, the
// operation halts. Body and Show are those that a has now.
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

// Sentence is fmt.Sprintf for sentences of a page: each argument is shown as code.
func Sentence(format string, args ...any) template.HTML {
	shown := make([]any, len(args))
	for i, a := range args {
		shown[i] = "<code>" + template.HTMLEscapeString(fmt.Sprint(a)) + "</code>"
	}
	return template.HTML(fmt.Sprintf(template.HTMLEscapeString(format), shown...)) //nolint:gosec // all is escaped
}

// Anchor is a link to one of the pages within a sentence.
func (k *Kit) Anchor(path string, words template.HTML) template.HTML {
	page := template.HTMLEscapeString(k.Base + path)
	return template.HTML(`<a href="`+page+`">`) + words + "</a>" //nolint:gosec // escaped
}

// JSON is the content type of every body.
const JSON = "application/json"

// Emptied removes values whose fields were emptied: an omitted member would stay as it is. A field that the form
// does not have is left alone. before are the values when the form was opened.
func Emptied(form Form, members map[string]any, before map[string]*string) {
	for name, value := range before {
		filled, shown := form[name]
		if shown && members[name] == nil && strings.TrimSpace(filled) == "" && deref(value) != "" {
			members[name] = ""
		}
	}
}

// members makes the body of the form.
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

// value converts a text to a value of the body. Numbers keep their digits.
func (f Field) value(text string) (any, error) {
	switch f.Kind {
	case "json", "number":
		if !json.Valid([]byte(text)) {
			return nil, f.malformed("This is not " + map[string]string{"json": "JSON", "number": "a number"}[f.Kind] + ".")
		}
		return json.RawMessage(text), nil
	case "check":
		return true, nil
	case "span":
		ms, ok := milliseconds(text)
		if !ok {
			return nil, f.malformed("Write a span of time with its unit, such as 500 ms, 30 s, 5 min, 2 h or 7 d.")
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

// request sends the form; as a dry run it changes nothing.
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
		return 0, nil, fmt.Errorf("make the body: %w", err)
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
