package web

import (
	"bytes"
	"encoding/json"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
)

// remembers reports whether a form sends back the value that a field had when it was opened.
func (a *Action) remembers(f Field) bool { return a.Edits && f.Kind != "secret" && f.Kind != "hidden" }

// sameValue reports whether a field still has the same value, even if it is written differently.
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

// since describes what has changed since a stale form was opened: the values and the state that are
// now different, and the actions performed on its subject.
type since struct {
	Values  []template.HTML
	Actions []client.Action
	Unknown bool // the visitor may not read the audit trail, or it does not cover this subject
}

// opened contains what a form records about the time when it was opened.
type opened struct {
	at    time.Time
	state string
	was   map[string]string // the values of its fields
}

// remembered parses what the form sent back.
func (v *Visit) remembered() (o opened) {
	o.state, o.was = v.Form.Get("was-state"), map[string]string{}
	o.at, _ = time.Parse(time.RFC3339Nano, v.Form.Get("opened"))
	_ = json.Unmarshal([]byte(v.Form.Get("was")), &o.was) // a form of an earlier release does not have this
	return o
}

// stale reads what has changed since the form for an action was opened; present contains the
// current values of its fields.
func (k *Kit) stale(v *Visit, a *Action, present []string) (*since, error) {
	o, s := v.remembered(), &since{}
	if o.state != "" && a.State != "" && o.state != a.State {
		s.Values = append(s.Values, FromTo("the state", o.state, a.State))
	}
	for i, f := range a.Fields {
		was, known := o.was[f.Name]
		if f.Value = present[i]; known && a.remembers(f) && !sameValue(f, was) {
			s.Values = append(s.Values, FromTo(f.Label, f.said(was), f.said(present[i])))
		}
	}
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
	slices.Reverse(s.Actions) // in chronological order
	return s, nil
}
