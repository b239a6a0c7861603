package workflowpages

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// registration is the form for a new version of a workflow. It is checked as the user types, and
// compared with the version that new sagas currently use.
type registration struct {
	Text     string
	Key      string // Idempotency-Key
	Name     string // the workflow for which the form was opened; empty: none
	Checked  bool
	Valid    *client.WorkflowValidation
	Findings []finding
	Problem  *client.Problem // from the check or the registration, if it contains no findings
	Listing  []listed        // the text with its findings
	Current  *stored         // the version with which Valid was compared; nil: the name is new
	ETag     string          // version of that workflow
	Steps    []step
	Changes  changes
	Diff     []web.DiffLine
	May      bool // the visitor may register workflows
	Stale    bool // the workflow has changed since the form was checked
	Unseen   bool // the registration was not sent, because the differences had not been shown yet
	Curl     string
}

// mediaType returns the content type of a definition.
func mediaType(text string) string {
	if isJSON(text) {
		return web.JSON
	}
	return "application/yaml"
}

// register shows the form.
func (p *pages) register(v *web.Visit) (*web.Page, error) {
	if p.kit.ReadOnly {
		return nil, web.ErrNoPage
	}
	d := &registration{Key: p.kit.NewID(), Text: sample}
	if name := v.Query("name"); name != nil {
		w, err := p.latest(v, *name)
		if err != nil {
			return nil, err
		}
		if w == nil {
			return nil, web.ErrNoPage
		}
		d.Name, d.Text = w.Name, asYAML(w.raw)
	}
	if err := p.check(v, d); err != nil {
		return nil, err
	}
	return p.registerPage(v, d, 0), nil
}

// sample is the initial text of the form.
const sample = `name: my-workflow
steps:
  - name: reserve
    action:
      http: {url: "https://stock.example/reservations"}
    compensation:
      http: {url: "https://stock.example/reservations/cancel"}
  - name: charge
    action:
      http: {url: "https://payments.example/charges"}
    compensation:
      http: {url: "https://payments.example/charges/refund"}
    retry: {max_attempts: 5}
`

// registered checks the form or sends it.
func (p *pages) registered(v *web.Visit) (*web.Page, error) {
	if p.kit.ReadOnly {
		return nil, web.ErrNoPage
	}
	if err := v.ParseForm(); err != nil {
		return nil, web.Malformed("The form cannot be read.")
	}
	// Browsers send line endings as CR LF.
	d := &registration{
		Key: v.Form.Get("key"), Name: v.Form.Get("name"), Text: strings.ReplaceAll(v.Form.Get("definition"), "\r\n", "\n"),
	}
	if d.Key == "" {
		d.Key = p.kit.NewID()
	}
	if err := p.check(v, d); err != nil {
		return nil, err
	}
	if v.Form.Get("do") != "act" {
		return p.registerPage(v, d, 0), nil
	}
	if d.Valid == nil {
		status := 0
		if d.Problem != nil {
			status = d.Problem.Status
		}
		return p.registerPage(v, d, status), nil
	}
	// The form names the version to compare with. If there is a newer version, the differences from
	// it were not seen.
	seen := ""
	if v.Form.Get("compared") == d.Valid.Name {
		seen = v.Form.Get("etag")
	}
	if d.Current != nil && seen == "" {
		d.Unseen = true
		return p.registerPage(v, d, http.StatusConflict), nil
	}
	res, err := p.kit.Client.RegisterWorkflowWithBodyWithResponse(v.Context(), &client.RegisterWorkflowParams{},
		mediaType(d.Text), strings.NewReader(d.Text), func(_ context.Context, r *http.Request) error {
			r.Header.Set("Idempotency-Key", d.Key)
			if seen != "" {
				r.Header.Set("If-Match", seen)
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	if w := res.JSON201; w != nil {
		return &web.Page{Data: web.Redirect(pathOf(w.Name) + "?v=" + strconv.Itoa(w.Version))}, nil
	}
	if w := res.JSON200; w != nil { // an identical version already existed
		return &web.Page{Data: web.Redirect(pathOf(w.Name) + "?v=" + strconv.Itoa(w.Version))}, nil
	}
	if _, err = web.Got(res.JSON200, res.ApplicationProblemJSONDefault); !d.refused(err) {
		return nil, err
	}
	d.Stale = d.Problem != nil && d.Problem.Status == http.StatusPreconditionFailed
	d.Key = p.kit.NewID() // the next submission is a new request
	status := http.StatusUnprocessableEntity
	if d.Problem != nil {
		status = d.Problem.Status
	}
	return p.registerPage(v, d, status), nil
}

func (p *pages) registerPage(v *web.Visit, d *registration, status int) *web.Page {
	if d.Valid != nil {
		d.Curl = web.Curl(v.Request, p.kit.Base, "POST", "/api/v1/workflows", nil) + " -H 'Content-Type: " +
			mediaType(d.Text) + "' --data-binary @definition"
	}
	d.May = v.May("workflows:write")
	title := "Register a workflow"
	if d.Name != "" {
		title = "New version of " + d.Name
	}
	return &web.Page{
		Template: "workflow-register", Title: title, Nav: "Workflows", Status: status, Data: d,
		Scripts: []string{"workflows.js"}, OwnCommand: d.Curl != "",
	}
}

// check asks the API to validate the text, and compares it with the current version.
func (p *pages) check(v *web.Visit, d *registration) error {
	d.Checked = true
	res, err := p.kit.Client.ValidateWorkflowWithBodyWithResponse(v.Context(), mediaType(d.Text),
		strings.NewReader(d.Text), web.ChangesNothing)
	if err != nil {
		return err
	}
	valid, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		if d.refused(err) {
			return nil
		}
		return err
	}
	d.Valid = valid
	var sent struct {
		Definition json.RawMessage `json:"definition"`
	}
	if err := json.Unmarshal(res.Body, &sent); err != nil {
		return err
	}
	d.Steps = stepsOf(&valid.Definition)
	if d.Current, err = p.latest(v, valid.Name); err != nil || d.Current == nil {
		return err
	}
	d.ETag = d.Current.etag
	d.Diff = web.Diff(asYAML(d.Current.raw), asYAML(sent.Definition))
	d.Changes, err = changesOf(d.Current.raw, sent.Definition)
	return err
}

// refused shows the API's findings at the places in the text that they refer to. It reports whether
// err came from the API.
func (d *registration) refused(err error) bool {
	var refusal *web.Refusal
	if !errors.As(err, &refusal) {
		return false
	}
	d.Problem = &refusal.Problem
	d.Findings = placed(d.Text, refusal.Errors)
	of := map[int][]string{}
	if found := inLine.FindStringSubmatch(refusal.Detail); len(d.Findings) == 0 && found != nil {
		line, _ := strconv.Atoi(found[1]) // they are digits
		of[line] = []string{refusal.Detail}
	}
	d.Listing = listing(d.Text, d.Findings, of)
	return true
}

// Link to the current version.
func (d *registration) Link() string {
	return pathOf(d.Current.Name) + "?" + url.Values{"v": {strconv.Itoa(d.Current.Version)}}.Encode()
}
