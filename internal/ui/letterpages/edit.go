package letterpages

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// headerRows is the number of new headers that can be added at a time.
const headerRows = 3

// presets are sets of headers to drop, by subject.
var presets = []struct {
	field, label string
	names        *regexp.Regexp
}{
	{"without_trace", "tracing", regexp.MustCompile(`(?i)^(traceparent|tracestate|b3|x-b3-.*|uber-trace-id|baggage)$`)},
	{"without_replication", "replication", regexp.MustCompile(`(?i)replica|mirror`)},
}

// editForm is the data for an edit form in addition to its fields.
type editForm struct {
	Before  []header
	Rows    []string // prefixes of the fields for header operations
	Presets []string // names of the fields
	Target  bool
	Folds   string      // describes the folded headers
	Opened  bool        // one of the folded headers is to be changed
	changes []operation // changes to the payload
}

// editShown is the preview of an edit.
type editShown struct{ Patch template.HTML }

// edit is the form for changing what a retry sends.
func (p *pages) edit(v *web.Visit) (*web.Action, error) {
	l, res, d, err := p.carriedOf(v)
	if err != nil {
		return nil, err
	}
	if d.Content.Hidden {
		return nil, &web.Refusal{Problem: client.Problem{
			Status: 403, Code: "AUTH_FORBIDDEN", Title: "Hidden content",
			Detail: "You lack permission to see this content (payloads:read), so you cannot edit it. You can retry it unchanged.",
		}}
	}
	if !allows(l, client.DeadLetterVerbRetry) {
		return nil, &web.Refusal{Problem: client.Problem{
			Status: http.StatusConflict, Code: "DLQ_CONFLICT", Title: "Cannot be retried",
			Detail: "The letter is " + web.BadgeOf(l.Status).Word + ", so it cannot be retried, and there is nothing to edit.",
		}}
	}
	a := p.actionOn(l, res, letterVerbs[client.DeadLetterVerbRetry], "retry")
	a.Label, a.Title, a.Class = "Retry with these changes", "Edit and retry: "+titleOf(l), web.Changes
	a.Means = "The original is not changed. The edit is stored as a revision with your name and reason; later retries " +
		"also send the edited content."
	a.Template, a.Scripts = "action-edit", []string{"letters.js"}
	x := editForm{Before: d.Headers, Target: l.Target.Kind != client.DeadLetterTargetKindJobRun}
	payload := payloadField(&d.Content)
	a.Fields = append(a.Fields, payload)
	if x.Target {
		headerFields(a, &x, d.Headers)
		a.Fields = append(a.Fields,
			web.Field{Name: "key_text", Label: "Another key", Hint: "unchanged"},
			web.Field{Name: "target.topic", Label: "Another topic", Hint: targetOf(&l.Target)},
			web.Field{Name: "target.partition", Label: "Its partition", Kind: "number", Hint: "from the key"},
			web.Field{Name: "target.url", Label: "Another URL, if the topic's policy allows it", Hint: "https://"},
			web.Field{Name: "target.method", Label: "Method", Kind: "select", Options: append(
				[]web.Option{{}}, web.Options("POST", "PUT", "PATCH", "DELETE")...)})
	}
	a.Extra = &x
	x.Folds = "Add headers"
	switch n := len(d.Headers); {
	case n == 1:
		x.Folds = "1 header: change it, or add others"
	case n > 1:
		x.Folds = web.Count(n) + " headers: change them, or add others"
	}
	x.Opened = slices.ContainsFunc(x.Presets, v.Form.Has) ||
		slices.ContainsFunc(x.Rows, func(row string) bool { return v.Form.Get(row+"op") != "" })
	a.Body = func(form web.Form, members map[string]any) error {
		return editBody(&d, &x, payload.Name, form, members)
	}
	a.Foresee = func(_ context.Context, body []byte) (*web.Preview, error) { return x.foreseen(l, body) }
	return a, nil
}

// payloadField is the field for a payload, which is shown as JSON or text if possible, and
// otherwise as base64.
func payloadField(c *content) web.Field {
	switch c.Encoding {
	case "json":
		var pretty bytes.Buffer
		if json.Indent(&pretty, c.JSON, "", "  ") != nil {
			return web.Field{Name: "payload_json", Label: "Payload", Kind: "long", Value: string(c.JSON)}
		}
		return web.Field{Name: "payload_json", Label: "Payload", Kind: "long", Value: pretty.String()}
	case "text":
		return web.Field{Name: "payload_text", Label: "Payload", Kind: "long", Value: string(c.Bytes)}
	}
	return web.Field{
		Name: "payload_bytes", Label: "Payload in base64", Kind: "long", Value: base64.StdEncoding.EncodeToString(c.Bytes),
	}
}

func headerFields(a *web.Action, x *editForm, headers []header) {
	for _, preset := range presets {
		var names []string
		for _, h := range headers {
			if preset.names.MatchString(h.Name) && !slices.Contains(names, h.Name) {
				names = append(names, h.Name)
			}
		}
		if len(names) > 0 {
			x.Presets = append(x.Presets, preset.field)
			a.Fields = append(a.Fields, web.Field{
				Name: preset.field, Kind: "check", Label: "Leave out " + preset.label + ": " + strings.Join(names, ", "),
			})
		}
	}
	for i := range len(headers) + headerRows {
		row := fmt.Sprintf("h%d_", i)
		x.Rows = append(x.Rows, row)
		name, now, ops := "", "", []web.Option{{Label: "–"}, {Value: "set", Label: "add"}}
		if i < len(headers) {
			name, now = headers[i].Name, headers[i].Text
			ops = []web.Option{
				{Label: "leave unchanged"}, {Value: "set", Label: "set"}, {Value: "remove", Label: "remove"},
			}
		}
		a.Fields = append(a.Fields,
			web.Field{Name: row + "op", Label: "Header", Kind: "select", Options: ops},
			web.Field{Name: row + "name", Label: "Name", Value: name}, web.Field{Name: row + "value", Label: "Value", Hint: now})
	}
}

// headerOp is an operation on the headers of a record.
type headerOp struct {
	Op    string  `json:"op"`
	Name  string  `json:"name"`
	Value *string `json:"value,omitempty"`
	Bytes *string `json:"value_base64,omitempty"`
}

// headerOps returns the operations that the rows of a form stand for. If several headers have the
// same name, each row stands for one of them: all are removed, and then added again with their new
// values.
func headerOps(rows []string, sent []client.DeadLetterHeader, form web.Form) (ops []headerOp) {
	several := map[string]int{}
	for _, h := range sent {
		several[h.Name]++
	}
	again := map[string]bool{} // names of repeated headers of which one is to be changed
	for i, h := range sent {
		if several[h.Name] > 1 && form[rows[i]+"op"] != "" && !again[h.Name] {
			again[h.Name] = true
			ops = append(ops, headerOp{Op: "remove", Name: h.Name})
		}
	}
	for i, row := range rows {
		op, name, value := form[row+"op"], form[row+"name"], form[row+"value"]
		switch {
		case i < len(sent) && again[sent[i].Name] && op == "":
			as := headerOp{Op: "add", Name: sent[i].Name, Value: sent[i].Value}
			if as.Value == nil {
				as.Bytes = sent[i].ValueBase64
			}
			ops = append(ops, as)
		case i < len(sent) && again[sent[i].Name] && op == "set":
			ops = append(ops, headerOp{Op: "add", Name: cmp.Or(name, sent[i].Name), Value: &value})
		case i < len(sent) && again[sent[i].Name]: // it is omitted
		case op == "set":
			ops = append(ops, headerOp{Op: op, Name: name, Value: &value})
		case op == "remove":
			ops = append(ops, headerOp{Op: op, Name: name})
		}
	}
	return ops
}

// editBody makes the body of a retry from the form. It contains only changes.
func editBody(d *carried, x *editForm, payload string, form web.Form, members map[string]any) error {
	for _, name := range []string{"payload_json", "payload_text", "payload_bytes", "key_text"} {
		delete(members, name)
	}
	if edited, ok := form["payload_json"]; ok {
		patch, err := difference(d.Content.JSON, json.RawMessage(edited))
		if err != nil {
			return malformed("payload_json", "This is not valid JSON: "+err.Error()+".")
		}
		if x.changes = patch; len(patch) > 0 {
			members["payload_patch"] = patch
		}
	}
	if edited, ok := form["payload_text"]; ok {
		// Browsers send line endings as CR LF.
		before := strings.ReplaceAll(string(d.Content.Bytes), "\r\n", "\n")
		if edited = strings.ReplaceAll(edited, "\r\n", "\n"); edited != before {
			members["payload_base64"] = base64.StdEncoding.EncodeToString([]byte(edited))
		}
	}
	if edited, ok := form["payload_bytes"]; ok {
		edited = strings.Join(strings.Fields(edited), "")
		if edited != base64.StdEncoding.EncodeToString(d.Content.Bytes) {
			members["payload_base64"] = edited
		}
	}
	if key := form["key_text"]; key != "" {
		members["key_base64"] = base64.StdEncoding.EncodeToString([]byte(key))
	}
	var ops []headerOp
	for _, preset := range presets {
		delete(members, preset.field)
		if form[preset.field] == "" {
			continue
		}
		for _, h := range x.Before {
			already := slices.ContainsFunc(ops, func(o headerOp) bool { return o.Name == h.Name })
			if preset.names.MatchString(h.Name) && !already {
				ops = append(ops, headerOp{Op: "remove", Name: h.Name})
			}
		}
	}
	for _, row := range x.Rows {
		for _, part := range []string{"op", "name", "value"} {
			delete(members, row+part)
		}
	}
	ops = append(ops, headerOps(x.Rows, d.sent, form)...)
	if len(ops) > 0 {
		members["headers_patch"] = ops
	}
	for _, name := range []string{"payload_patch", "payload_base64", "key_base64", "headers_patch", "target"} {
		if members[name] != nil {
			return nil
		}
	}
	return &web.Refusal{Problem: client.Problem{
		Status: http.StatusUnprocessableEntity, Title: "No changes", Detail: unchanged,
		Errors: []client.ProblemField{{Pointer: "/" + payload, Message: unchanged}},
	}}
}

// unchanged is the message for a form that was sent without changes.
const unchanged = "You have not changed anything yet. To send the letter unchanged, go back and use Retry."

func malformed(field, detail string) error {
	r := web.Malformed(detail)
	r.Errors = []client.ProblemField{{Pointer: "/" + field, Message: detail}}
	return r
}

// foreseen describes what an edit changes.
func (x *editForm) foreseen(l *client.DeadLetter, body []byte) (*web.Preview, error) {
	var asked struct {
		Patch   json.RawMessage `json:"payload_patch"`
		Bytes   *string         `json:"payload_base64"`
		Key     *string         `json:"key_base64"`
		Headers []headerOp      `json:"headers_patch"`
		Target  *client.DeadLetterRetryTarget
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, err
	}
	shown, more := &web.Preview{}, editShown{}
	if asked.Patch != nil {
		for _, o := range x.changes {
			shown.Sentences = append(shown.Sentences, o.sentence())
		}
		more.Patch = web.Tree(asked.Patch)
	}
	if asked.Bytes != nil {
		shown.Sentences = append(shown.Sentences, "The payload is replaced.")
	}
	if asked.Key != nil {
		shown.Sentences = append(shown.Sentences, "The key is changed.")
	}
	for _, h := range asked.Headers {
		switch h.Op {
		case "remove":
			shown.Sentences = append(shown.Sentences, web.Sentence("The header %s is removed.", h.Name))
		case "add":
			shown.Sentences = append(shown.Sentences, web.Sentence("The header %s is added: %s.", h.Name,
				cmp.Or(text(h.Value), text(h.Bytes))))
		default:
			shown.Sentences = append(shown.Sentences, web.Sentence("The header %s is set to %s, replacing all headers of that name.", h.Name,
				text(h.Value)))
		}
	}
	to := targetOf(&l.Target)
	if t := asked.Target; t != nil && t.Topic != nil {
		to = "topic " + *t.Topic
	} else if t != nil && t.URL != nil {
		to = *t.URL
	}
	shown.Ends = web.Sentence("It is sent to %s, and Skald waits for the response.", to)
	shown.Extra = more
	return shown, nil
}
