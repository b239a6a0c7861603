package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
)

// FromTo is the sentence of one thing that an action changes. It is the same wherever an action is previewed.
func FromTo(what, from, to string) template.HTML {
	return Sentence(strings.ReplaceAll(Capital(what), "%", "%%")+" changes from %s to %s.",
		cmp.Or(from, "nothing"), cmp.Or(to, "nothing"))
}

// planned are the changes that a form makes itself, before those that only the API or a reading can tell: of the state,
// and of each value of an edit. before are the values that the fields had.
func planned(a *Action, before []string) (all []template.HTML) {
	if a.State != "" && a.Becomes != "" && a.State != a.Becomes {
		all = append(all, FromTo("the state", a.State, a.Becomes))
	}
	return append(all, edits(a, func(i int) (was, is string, known bool) { return before[i], a.Fields[i].Value, true })...)
}

// edits are the values of an edit that differ. values returns those of a field.
func edits(a *Action, values func(field int) (was, is string, known bool)) (all []template.HTML) {
	for i, f := range a.Fields {
		was, is, known := values(i)
		if f.Value = is; known && a.remembers(f) && !sameValue(f, was) {
			all = append(all, FromTo(f.Label, f.said(was), f.said(is)))
		}
	}
	return all
}

// remembers reports whether a form sends back the value that a field had when it was opened.
func (a *Action) remembers(f Field) bool { return a.Edits && f.Kind != "secret" && f.Kind != "hidden" }

// sameValue reports whether a field still has a value, however it is written.
func sameValue(f Field, before string) bool {
	lines := func(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n")) }
	was, is := lines(before), lines(f.Value)
	if f.Kind == "span" && was != "" && is != "" {
		wasMS, wasOK := milliseconds(was)
		isMS, isOK := milliseconds(is)
		return was == is || wasOK && isOK && wasMS == isMS
	}
	if f.Kind == "json" {
		var a, b bytes.Buffer
		if json.Compact(&a, []byte(was)) == nil && json.Compact(&b, []byte(is)) == nil {
			return a.String() == b.String()
		}
	}
	return was == is
}

// said is a value of a field as the form shows it.
func (f Field) said(value string) string {
	for _, o := range f.Options {
		if o.Value == value {
			return o.Label
		}
	}
	if value = strings.TrimSpace(value); f.Kind == "check" {
		return map[bool]string{true: "yes", false: "no"}[value != ""]
	}
	return strings.Join(strings.Fields(value), " ")
}

// since describes what has changed since a stale form was opened: the values and the state that differ now, and who has
// done what to its subject.
type since struct {
	Values  []template.HTML
	Actions []client.Action
	Unknown bool // the visitor may not read the list of what people did, or it is not about this subject
}

// opened is what a form remembers of the time when it was opened.
type opened struct {
	at    time.Time
	state string
	was   map[string]string // the values of its fields
}

// remembered reads what the form sent back.
func (v *Visit) remembered() (o opened) {
	o.state, o.was = v.Form.Get("was-state"), map[string]string{}
	o.at, _ = time.Parse(time.RFC3339Nano, v.Form.Get("opened"))
	_ = json.Unmarshal([]byte(v.Form.Get("was")), &o.was) // a form of a former release has none
	return o
}

// stale reads what has changed since the form of an action was opened; present are the values of its fields now.
func (k *Kit) stale(v *Visit, a *Action, present []string) (*since, error) {
	o, s := v.remembered(), &since{}
	if o.state != "" && a.State != "" && o.state != a.State {
		s.Values = append(s.Values, FromTo("the state", o.state, a.State))
	}
	s.Values = append(s.Values, edits(a, func(i int) (was, is string, known bool) {
		was, known = o.was[a.Fields[i].Name]
		return was, present[i], known
	})...)
	if a.Subject == "" || o.at.IsZero() {
		s.Unknown = true
		return s, nil
	}
	size, scope := client.PageSize(20), client.AuditScopeTenant
	if a.Deployment {
		scope = client.AuditScopeDeployment
	}
	res, err := k.Client.ListActionsWithResponse(v.Context(),
		&client.ListActionsParams{Subject: &a.Subject, From: &o.at, PageSize: &size, Scope: &scope})
	if err != nil {
		return nil, err
	}
	if res.StatusCode() != http.StatusOK || res.JSON200 == nil {
		s.Unknown = true
		return s, nil
	}
	s.Actions = slices.Clone(res.JSON200.Actions)
	slices.Reverse(s.Actions) // as they happened
	return s, nil
}
