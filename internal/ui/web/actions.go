package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"html/template"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
)

// Action registers the form for an action. A GET shows the form. A POST to the same URL either
// shows it again with a preview or sends it. The parameters of the URL are the initial values of
// the fields with the same names.
func (k *Kit) Action(pattern string, open func(*Visit) (*Action, error)) {
	serve := func(v *Visit) (*Page, error) {
		if k.ReadOnly {
			return nil, ErrNoPage
		}
		if err := v.ParseForm(); err != nil {
			return nil, Malformed("The form cannot be read.")
		}
		a, err := open(v)
		if err != nil {
			return nil, err
		}
		return k.dialog(v, a)
	}
	k.Page("GET "+pattern, serve)
	k.Page("POST "+pattern, serve)
}

// dialog is the form for an action as shown by its template.
type dialog struct {
	*Action
	Reason  string
	Key     string // Idempotency-Key; stays the same however often the form is sent
	Version string // the ETag for which the form was opened
	Typed   string
	Preview *Preview
	Problem *client.Problem // of the preview or of the attempt to perform the action
	Out     []template.HTML // what can be done about a problem
	Changed bool            // the resource has changed since the form was opened
	Since   *since          // what has changed since then
	Opened  time.Time       // when this form was opened
	Was     string          // the values of its fields at that time, as JSON
	before  []string        // the current values of the resource for the fields
	Lacks   string          // what the visitor lacks; empty: nothing
	Unready string          // what must still be chosen; empty: nothing
	Command string          // curl command
}

// WantsReason reports whether the form has a reason.
func (d *dialog) WantsReason() bool { return !d.NoReason }

// ReasonRequired reports whether the form requires a reason.
func (d *dialog) ReasonRequired() bool { return d.Class != Safe }

// IsDangerous is called by the template.
func (d *dialog) IsDangerous() bool { return d.Class == Dangerous }

func (k *Kit) dialog(v *Visit, a *Action) (*Page, error) {
	d := &dialog{
		Action: a, Reason: v.Form.Get("reason"), Key: v.Form.Get("key"), Version: v.Form.Get("etag"),
		Typed: strings.TrimSpace(v.Form.Get("confirm")), Lacks: v.Lacks(a.Needs, a.Deployment),
	}
	posted := v.Method == http.MethodPost
	d.open(v, posted)
	for i, f := range a.Fields {
		if posted || v.Form.Has(f.Name) {
			a.Fields[i].Value = v.Form.Get(f.Name)
		}
	}
	if d.Key == "" {
		d.Key = k.NewID()
	}
	if !posted {
		d.Version = a.ETag
	}
	form := Form{"reason": d.Reason}
	for _, f := range a.Fields {
		form[f.Name] = f.Value
	}
	d.unready(form)
	if posted && v.Form.Get("do") != "preview" {
		p, err := k.act(v, d, form)
		if p != nil || err != nil {
			return p, err
		}
		if d.Changed {
			if d.Since, err = k.stale(v, a, d.before); err != nil {
				return nil, err
			}
			d.open(v, false)
		}
	}
	if err := d.preview(v, form); err != nil {
		return nil, err
	}
	if !posted && v.URL.RawQuery == "" && d.Problem != nil && d.lacksFields() {
		d.Problem = nil // missing fields have not been filled in yet
		for i := range a.Fields {
			a.Fields[i].Problem = ""
		}
	}
	sent := posted && v.Form.Get("do") != "preview"
	if d.Problem != nil && a.Ways != nil {
		if d.Out = a.Ways(v.Context(), d.Problem); d.Out != nil && !sent {
			d.Problem = nil
		}
	}
	d.Command = d.asCurl(v, form)
	p := &Page{Template: "action", Title: a.Title, Nav: a.Nav, Data: d, Scripts: a.Scripts, OwnCommand: d.Command != ""}
	if a.Template != "" {
		p.Template = a.Template
	}
	if d.Problem != nil && sent {
		p.Status = d.Problem.Status
	}
	return p, nil
}

// lacksFields reports whether the API has rejected the values of the fields, which a new form does
// not have yet.
func (d *dialog) lacksFields() bool {
	return d.Problem.Code == "REQ_SCHEMA" ||
		!d.Edits && d.Problem.Status == http.StatusUnprocessableEntity && len(d.Problem.Errors) > 0
}

// open records the initial values of the form and the time, unless a submitted form already
// contains them.
func (d *dialog) open(v *Visit, posted bool) {
	if d.before == nil {
		for _, f := range d.Fields {
			d.before = append(d.before, f.Value)
		}
	}
	if posted {
		d.Opened, d.Was = v.remembered().at, v.Form.Get("was")
		return
	}
	was := map[string]string{}
	for i, f := range d.Fields {
		if d.remembers(f) {
			was[f.Name] = d.before[i]
		}
	}
	raw, _ := json.Marshal(was) // encoding texts cannot fail
	d.Opened, d.Was = v.Now, string(raw)
}

// act performs the action. It returns no page and no error if the form must be shown again.
func (k *Kit) act(v *Visit, d *dialog, form Form) (*Page, error) {
	if d.Unready != "" && d.Lacks == "" { // without the permission, the API reports the problem
		d.Problem = &client.Problem{Status: http.StatusBadRequest, Title: "Not complete", Detail: d.Unready}
		return nil, nil
	}
	if d.ReasonRequired() && d.WantsReason() && strings.TrimSpace(d.Reason) == "" {
		d.Problem = &client.Problem{
			Status: http.StatusBadRequest, Title: "No reason", Detail: "Give a reason: it is recorded in the audit trail.",
		}
		return nil, nil
	}
	if d.Confirm != "" && d.Typed != d.Confirm {
		d.Problem = &client.Problem{
			Status: http.StatusBadRequest, Title: "Not confirmed", Detail: "Type " + d.Confirm + " to confirm.",
		}
		return nil, nil
	}
	status, answer, err := d.request(v, form, d.Key, d.Version, false)
	switch {
	case err != nil:
		return nil, d.refused(err)
	case status >= 300:
		if d.Failed != nil {
			if to := d.Failed(status, answer); to != "" {
				return &Page{Data: Redirect(to)}, nil
			}
		}
		d.fail(answer)
		d.Changed = status == http.StatusPreconditionFailed
		d.Key = k.NewID() // the next submission is a new request
		d.Version = d.ETag
		return nil, nil
	case d.Result != nil:
		page, err := d.Result(answer)
		if page != nil { // it may show a key or a secret, which is shown only once
			if page.Header == nil {
				page.Header = http.Header{}
			}
			page.Header.Set("Cache-Control", "no-store")
		}
		return page, err
	}
	return &Page{Data: Redirect(d.Done(answer))}, nil
}

// Previews reports whether the form has a preview.
func (d *dialog) Previews() bool {
	return d.DryRun != NoDryRun || d.Foresee != nil
}

// preview asks the API what the action would do, and reads what else the form shows.
func (d *dialog) preview(v *Visit, form Form) error {
	if d.Unready != "" {
		return nil
	}
	if d.DryRun != NoDryRun && d.Lacks == "" { // without the permission, the API would reject it
		if err := d.ask(v, form); err != nil {
			return err
		}
	}
	if d.Foresee == nil || d.Forbidden() {
		return nil
	}
	said := d.Preview
	if err := d.foresee(v, form); err != nil || said == nil || d.Preview == nil {
		d.Preview = cmp.Or(d.Preview, said)
		return err
	}
	d.Preview.Sentences = append(said.Sentences, d.Preview.Sentences...)
	d.Preview.Ends = cmp.Or(d.Preview.Ends, said.Ends)
	return nil
}

// ask sends the dry run. If it is rejected, the form shows the reason.
func (d *dialog) ask(v *Visit, form Form) error {
	status, answer, err := d.request(v, form, "", "", true)
	if err != nil {
		return d.refused(err)
	}
	if status >= 300 {
		if d.Problem == nil {
			d.fail(answer)
		}
		return nil
	}
	show := d.Show
	if show == nil {
		show = d.Planned
	}
	d.Preview, err = show(answer)
	return err
}

func (d *dialog) foresee(v *Visit, form Form) error {
	body, err := d.members(form)
	if err != nil {
		return d.refused(err)
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	if d.Preview, err = d.Foresee(v.Context(), raw); err != nil {
		return d.refused(err)
	}
	return nil
}

// refused shows err in the form if it concerns what was filled in.
func (d *dialog) refused(err error) error {
	var r *Refusal
	if !errors.As(err, &r) {
		return err
	}
	if d.Problem == nil {
		d.Problem = &r.Problem
		d.marks()
	}
	return nil
}

func (d *dialog) fail(answer []byte) {
	d.Problem = &client.Problem{}
	if json.Unmarshal(answer, d.Problem) != nil {
		*d.Problem = internal.Problem
	}
	d.marks()
}

// marks shows the problem's errors next to their fields.
func (d *dialog) marks() {
	for _, e := range d.Problem.Errors {
		name := strings.ReplaceAll(strings.TrimPrefix(e.Place(), "/"), "/", ".")
		for i, f := range d.Fields {
			if name == f.Name || strings.HasPrefix(name, f.Name+".") {
				d.Fields[i].Problem = e.Message
			}
		}
	}
}

// errShown stops a request that is built only to be shown.
var errShown = errors.New("the request is only shown")

// asCurl returns the command that does the same as the form.
func (d *dialog) asCurl(v *Visit, form Form) string {
	body, err := d.members(form)
	if err != nil {
		return ""
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return ""
	}
	var made *http.Request
	res, _ := d.Send(v.Context(), bytes.NewReader(raw), func(_ context.Context, r *http.Request) error {
		made = r
		return errShown
	})
	if res != nil {
		defer res.Body.Close()
	}
	if made == nil { // nothing is selected
		return ""
	}
	if made.Body != nil {
		raw, err = io.ReadAll(made.Body)
	} else {
		raw = nil
	}
	if err != nil {
		return ""
	}
	command := Curl(v.Request, v.Kit.Base, made.Method, made.URL.RequestURI(), raw)
	if d.ETag != "" {
		command += " -H " + quoted("If-Match: "+d.ETag)
	}
	return command
}

// Button is an action as offered on a page.
type Button struct {
	Label, URL, Means string
	Needs             string // what the visitor lacks; empty: nothing
	Danger            bool
	Quiet             bool // not drawn as the primary button, even if it comes first
	Page              bool // it opens as a page, not in a dialog
	// Chosen is the action on the selected items for which the button submits the surrounding form.
	// If it is empty, the button is a link.
	Chosen string
}

// Button returns the button for an action at a path below the base. It is disabled if the visitor
// lacks the permission.
func (v *Visit) Button(label, path, permission, means string, class Class) Button {
	return Button{
		Label: label, URL: v.Kit.Base + path, Means: means, Danger: class == Dangerous, Needs: v.Lacks(permission, false),
	}
}

// ForSelected returns the button for an action on the items selected in the surrounding form.
func (v *Visit) ForSelected(label, action, permission string) Button {
	return Button{Label: label, Chosen: action, Needs: v.Lacks(permission, false)}
}

// Withheld removes the buttons that the visitor may not use from the rows of a list, and returns
// one of each kind, so that the page states only once what they require. of returns the buttons of
// a row.
func Withheld[R any](rows []R, of func(*R) *[]Button) (all []Button) {
	for i := range rows {
		var offered []Button
		buttons := of(&rows[i])
		for _, b := range *buttons {
			switch {
			case b.Needs == "":
				offered = append(offered, b)
			case !slices.ContainsFunc(all, func(o Button) bool { return o.Label == b.Label && o.Needs == b.Needs }):
				all = append(all, b)
			}
		}
		*buttons = offered
	}
	return all
}

// Lacks returns what the visitor lacks for something that requires a permission and, if it concerns
// all tenants, a credential for all tenants. It returns "" if nothing is missing.
func (v *Visit) Lacks(permission string, deployment bool) string {
	switch {
	case permission != "" && !v.May(permission):
		return permission
	case deployment && !v.Who.AnyTenant:
		return "a credential for all tenants"
	}
	return ""
}
