package sagapages

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// sagaList is the page that lists the sagas.
type sagaList struct {
	*web.List
	Rows     []sagaRow
	Filtered bool        // whether any filter is set
	Selected *web.Button // acts on the selected sagas; nil: the pages are read-only
	Fits     *web.Button // acts on all sagas that match the filters
	CSV, ND  string      // URLs for downloading the loaded page as files
	Group    string      // URL of the errors; empty: none
	Archived bool
	Example  string // the command that creates a saga
	New      *web.Button
}

const bulkPath, errorsPath = "/ui/sagas/bulk/new", "/ui/sagas/errors"

// bulkButton opens the bulk form for the sagas that match a filter.
func bulkButton(v *web.Visit, label, query string) web.Button {
	return v.Button(label, bulkPath+"?"+query, "sagas:write", "Cancel, retry, suspend or resume many sagas.", web.Changes)
}

// sagaRow is a saga in the list.
type sagaRow struct {
	*client.Saga
	Done, Part percent // parts of the tiny rail: finished steps, and the current step
	Tone       string
	Called     string     // the name that the client gave to its inline steps; empty: the workflow is registered
	Waits      string     // describes what it is waiting for
	WaitsUntil *time.Time // when the wait ends
	WaitsAt    string     // the participant at whose gate it waits; "": none
	Open       bool       // its preview is open
	PeekURL    string     // URL of the page with the preview, or without it if it is open
	Explain    *client.SagaExplanation
	Actions    []web.Button
}

var views = []web.View{
	{Name: "Needs attention", Filter: url.Values{"needs_attention": {"true"}}},
	{Name: "Active", Filter: url.Values{"active": {"true"}}},
	{Name: "Failed", Filter: url.Values{"status": {"FAILED"}}},
	{Name: "All"},
	{Name: "Archived", Filter: url.Values{"archived": {"true"}}},
}

// listed reads the page of the list that the URL requests.
func (p *pages) listed(v *web.Visit) (*web.List, *client.SagaList, error) {
	return web.ListPage[client.SagaList](v, views, filters, p.kit.Client.ListSagas, "include", "total", "peek", "")
}

func (p *pages) list(v *web.Visit) (*web.Page, error) {
	if v.URL.Query().Has("metadata_path") {
		return withMetadata(v), nil
	}
	if q := v.URL.Query(); q.Get("archived") == "true" && q.Get("sort") == "completed_at" { // no index supports this order
		for _, name := range []string{"sort", "order", "cursor"} {
			q.Del(name)
		}
		return &web.Page{Data: web.Redirect("/ui/sagas?" + q.Encode())}, nil
	}
	l, list, err := p.listed(v)
	if err != nil {
		return nil, err
	}
	d := sagaList{List: l, Filtered: v.URL.RawQuery != ""}
	if !p.kit.ReadOnly {
		b := v.Button("New saga", "/ui/sagas/new", "sagas:write", "Start a saga of a workflow.", web.Changes)
		d.New = &b
	}
	q := v.URL.Query()
	q.Del("peek")
	d.CSV, d.ND = "/ui/sagas/export.csv?"+q.Encode(), "/ui/sagas/export.ndjson?"+q.Encode()
	d.Archived = q.Get("archived") == "true"
	if !p.kit.ReadOnly {
		all := l.Sent("sort", "", "order", "")
		selected := v.ForSelected("Act on the selected", "", "sagas:write")
		fits := bulkButton(v, "Act on all that match", all.Encode())
		if l.Total != "" {
			fits.Label += " (" + l.Total + ")"
		}
		d.Selected, d.Fits = &selected, &fits
	}
	d.Group = errorsPath
	if w := v.Query("workflow_name"); w != nil {
		d.Group += "?" + url.Values{"workflow_name": {*w}}.Encode()
	}
	d.Example = web.Curl(v.Request, p.kit.Base, "POST", "/api/v1/sagas",
		[]byte(`{"workflow_name": "order", "business_key": "order-4711", "payload": {"sku": "lamp"}}`))
	for i := range list.Sagas {
		row := rowOf(&list.Sagas[i], v.Now)
		row.PeekURL = l.With("peek", row.SagaID.String())
		if row.SagaID.String() == v.URL.Query().Get("peek") {
			if err := p.peek(v, &row); err != nil {
				return nil, err
			}
			row.PeekURL = l.With("peek", "")
		}
		d.Rows = append(d.Rows, row)
	}
	return &web.Page{
		Template: "sagas", Title: "Sagas", Nav: "Sagas", Refresh: 10, Data: d,
	}, nil
}

// peek adds what the saga is waiting for, and the possible actions.
func (p *pages) peek(v *web.Visit, row *sagaRow) (err error) {
	row.Open = true
	if row.Explain, err = p.explain(v, row.SagaID); err != nil {
		return err
	}
	row.Actions = p.buttonsOf(v, row.Explain)
	return nil
}

// rowOf shows the progress of a saga and what it is waiting for.
func rowOf(s *client.Saga, now time.Time) sagaRow {
	row := sagaRow{Saga: s, Tone: web.BadgeOf(s.State).Tone}
	if strings.HasPrefix(s.WorkflowName, "inline:") {
		row.Called = s.SagaType
	}
	if s.TotalSteps > 0 {
		row.Done = percent(100 * s.CurrentStep / s.TotalSteps)
		if s.CurrentStep < s.TotalSteps {
			row.Part = percent(100.0 / float64(s.TotalSteps))
		}
	}
	switch {
	case s.CompletedAt != nil && s.AttentionReason != nil:
		row.Waits = web.Words(*s.AttentionReason)
		if s.Error != nil {
			row.Waits += ": " + s.Error.Code
		}
	case s.CompletedAt != nil && s.ErrorMessage != nil:
		row.Waits = *s.ErrorMessage
	case s.CompletedAt != nil:
	case s.SuspendedAt != nil:
		row.Waits = "suspended"
	case s.DeadLetterID != nil:
		row.Waits = "its dead letter"
	case s.AtGateOf != nil:
		row.WaitsAt = *s.AtGateOf
	case s.AwaitsReport != nil && s.CurrentStepName != nil:
		row.Waits = "a report from " + *s.CurrentStepName
	case s.NextRunAt != nil && s.NextRunAt.After(now):
		row.Waits, row.WaitsUntil = "its next call", s.NextRunAt
	case s.CurrentStepName != nil:
		row.Waits = *s.CurrentStepName
	}
	return row
}

// withMetadata redirects to the list with one more metadata member as a filter, named as in the
// form: "customer.region" is a member of a nested object.
func withMetadata(v *web.Visit) *web.Page {
	q := v.URL.Query()
	asked := map[string]any{}
	if have, err := exact([]byte(q.Get("metadata"))); err == nil {
		if o, ok := have.(map[string]any); ok {
			asked = o
		}
	}
	if path := strings.TrimSpace(q.Get("metadata_path")); path != "" {
		into, names := asked, strings.Split(path, ".")
		for _, name := range names[:len(names)-1] {
			inner, ok := into[name].(map[string]any)
			if !ok {
				inner = map[string]any{}
				into[name] = inner
			}
			into = inner
		}
		into[names[len(names)-1]] = scalar(strings.TrimSpace(q.Get("metadata_value")))
		raw, err := json.Marshal(asked)
		if err == nil {
			q.Set("metadata", string(raw))
		}
	}
	for _, name := range []string{"metadata_path", "metadata_value", "cursor"} {
		q.Del(name)
	}
	for name, values := range q {
		if len(values) == 0 || values[0] == "" {
			q.Del(name)
		}
	}
	return &web.Page{Data: web.Redirect("/ui/sagas?" + q.Encode())}
}

// scalar parses a number, true, false, null or a quoted text as JSON, and treats anything else as a
// text.
func scalar(text string) any {
	if v, err := exact([]byte(text)); err == nil {
		if _, isObject := v.(map[string]any); !isObject {
			return v
		}
	}
	return text
}
