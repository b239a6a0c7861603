package app_test

import (
	"bytes"
	"cmp"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// act opens a form and submits it. If a visitor's button is disabled, the API refuses the visitor
// with the permission that the form names; if it is enabled, the API does not refuse.
func (m *rights) act(kind, to string, who visitor) {
	m.a.t.Helper()
	status, doc, text := m.asked(http.MethodGet, to, who, nil)
	switch {
	case status == http.StatusForbidden: // it needs to read something
		m.readable(to, who, text)
		return
	case status != http.StatusOK: // it is over
		return
	}
	form := formIn(doc)
	if form == nil {
		m.a.t.Errorf("%s shows %s no form", to, who.name)
		return
	}
	if command := commandIn(doc); command != "" {
		permission, err := m.permissionOf(command)
		if err != nil {
			m.a.t.Errorf("%s: %v", to, err)
		} else if before := m.needs[kind]; before != "" && before != permission {
			m.a.t.Errorf("%s needs %s or %s", kind, before, permission)
		}
		m.needs[kind] = permission
	}
	values, button := filled(form)
	if button == nil {
		m.a.t.Errorf("%s has no button for %s", to, who.name)
		return
	}
	if action := attribute(form, "action"); action != "" {
		to = action
	}
	status, text = m.sent(to, who, form, values)
	if status == http.StatusForbidden {
		permission := m.readable(to, who, text)
		if strings.HasSuffix(permission, ":read") && disabled(button) { // it may not even see what it would change
			return
		}
		switch {
		case !disabled(button):
			m.a.t.Errorf("%s offers %s what is then refused: %s", to, who.name, problemIn(text))
		case permission == "": // a credential for all tenants
		case m.needs[kind] != "" && m.needs[kind] != permission:
			m.a.t.Errorf("%s needs %s, and is refused for want of %s", kind, m.needs[kind], permission)
		default:
			m.needs[kind] = permission
		}
		if need := cmp.Or(permission, "a credential for all tenants"); !strings.Contains(textOf(form), "needs "+need) {
			m.a.t.Errorf("%s does not tell %s that it needs %s", to, who.name, need)
		}
		return
	}
	// Actions that the state forbids are disabled for everybody, and are not executed.
	if disabled(button) && (status < http.StatusBadRequest || strings.Contains(textOf(form), "needs ")) {
		m.a.t.Errorf("%s is disabled for %s, and done: %d %s", to, who.name, status, problemIn(text))
	}
	if needs := m.needs[kind]; needs != "" && needs != "anybody" && !slices.Contains(who.may, needs) {
		m.a.t.Errorf("%s is not refused to %s: %d %s", to, who.name, status, problemIn(text))
	}
}

// formIn returns the form of a page that changes something.
func formIn(doc *html.Node) *html.Node {
	for n := range doc.Descendants() {
		if n.Data == "form" && strings.EqualFold(attribute(n, "method"), "post") &&
			!strings.HasPrefix(attribute(n, "action"), "/ui/sign-") {
			return n
		}
	}
	return nil
}

func commandIn(doc *html.Node) string {
	for n := range doc.Descendants() {
		if n.Data == "details" && attribute(n, "id") == "action-curl" {
			_, command, _ := strings.Cut(textOf(n), "as curl")
			return command
		}
	}
	return ""
}

// problemIn returns the beginning of a page's error message.
func problemIn(page string) string {
	_, rest, _ := strings.Cut(page, `role="alert"`)
	return rest[:min(len(rest), 400)]
}

// sensible is what has to make sense to be sent.
var sensible = map[string]string{
	"definition": `{"name":"x","steps":[{"name":"s","action":{"http":{"url":"http://127.0.0.1:1/"}},"compensation":"none"}]}`,
}

// filled is what a person sends who fills in what a form insists on, and the button that acts.
func filled(form *html.Node) (values url.Values, button *html.Node) {
	values = url.Values{}
	for n := range form.Descendants() {
		name, value := attribute(n, "name"), attribute(n, "value")
		switch {
		case n.Type != html.ElementNode:
		case n.Data == "button":
			if button == nil || name == "do" && value != "preview" && value != "check" {
				button = n
			}
		case name == "":
		case n.Data == "textarea":
			values.Set(name, cmp.Or(textOf(n), sensible[name], "{}"))
		case n.Data == "select":
			values.Set(name, chosen(n))
		case n.Data != "input" || attribute(n, "type") == "checkbox" || attribute(n, "type") == "file":
		case name == "reason":
			values.Set(name, "because of the test")
		case name == "confirm":
			values.Set(name, typed(n.Parent))
		case value == "" && slices.ContainsFunc(n.Attr, func(at html.Attribute) bool { return at.Key == "required" }):
			values.Set(name, "1")
		default:
			values.Set(name, value)
		}
	}
	if button != nil && attribute(button, "name") != "" {
		values.Set(attribute(button, "name"), attribute(button, "value"))
	} else {
		values.Set("do", "act")
	}
	return values, button
}

// chosen returns the value of a select.
func chosen(list *html.Node) (value string) {
	first := true
	for n := range list.Descendants() {
		selected := slices.ContainsFunc(n.Attr, func(at html.Attribute) bool { return at.Key == "selected" })
		if n.Data == "option" && (first || selected) {
			value, first = attribute(n, "value"), false
		}
	}
	return value
}

// typed returns the text that a label asks people to type.
func typed(label *html.Node) string {
	for n := range label.Descendants() {
		if n.Data == "code" {
			return textOf(n)
		}
	}
	return ""
}

// sent submits a form as a browser does.
func (m *rights) sent(to string, who visitor, form *html.Node, values url.Values) (int, string) {
	m.a.t.Helper()
	if attribute(form, "enctype") != "multipart/form-data" {
		status, _, text := m.asked(http.MethodPost, to, who, values)
		return status, text
	}
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	file, err := w.CreateFormFile("file", "letters.ndjson")
	if err != nil {
		m.a.t.Fatal(err)
	}
	_, _ = file.Write([]byte("{}\n")) // to memory
	_ = w.Close()                     // to memory
	req, err := http.NewRequestWithContext(m.a.t.Context(), http.MethodPost, m.url+to, &body)
	if err != nil {
		m.a.t.Fatal(err)
	}
	req.Header.Set("Content-Type", w.FormDataContentType())
	status, _, text := m.crawl.send(req, who.key)
	return status, text
}

// permissionOf returns the permission of the operation that a command calls.
func (m *rights) permissionOf(command string) (string, error) {
	method := http.MethodGet
	if _, rest, given := strings.Cut(command, "-X "); given {
		method, _, _ = strings.Cut(rest, " ")
	}
	_, rest, _ := strings.Cut(command, "/api/v1/")
	path, _, _ := strings.Cut("/api/v1/"+rest, "'")
	path, _, _ = strings.Cut(path, "?")
	best, permission := -1, ""
	for at, item := range m.contract.doc["paths"].(map[string]any) {
		op, ok := item.(map[string]any)[strings.ToLower(method)].(map[string]any)
		if fixed := fits(at, path); ok && fixed > best {
			best = fixed
			permission, _ = op["x-permission"].(string)
		}
	}
	if permission == "" {
		return "", fmt.Errorf("the contract has no %s %s", method, path)
	}
	return permission, nil
}

// fits returns how many segments of a path are literally in the pattern, or -1 if the path does not
// match it.
func fits(pattern, path string) (fixed int) {
	parts, own := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(parts) != len(own) {
		return -1
	}
	for i, p := range parts {
		if p == own[i] {
			fixed++
		} else if !strings.HasPrefix(p, "{") {
			return -1
		}
	}
	return fixed
}
