package sagapages

import (
	"context"
	"encoding/json"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// bulkActions are the actions on many sagas, as options of the form.
var bulkActions = []web.Option{
	{Value: "retry", Label: "Retry: make the next attempt now"},
	{Value: "resume-compensation", Label: "Resume compensation where it gave up"},
	{Value: "acknowledge", Label: "Acknowledge: clear the need for attention"},
	{Value: "suspend", Label: "Suspend: make no new calls"},
	{Value: "resume", Label: "Resume after a suspension"},
	{Value: "cancel", Label: "Cancel: undo everything, end as cancelled"},
	{Value: "compensate", Label: "Compensate: undo everything, end as compensated"},
}

// bulkFields are the fields of the form. The URL contains the filters of the list, or the ids that
// were selected there.
func bulkFields(v *web.Visit) []web.Field {
	q := v.URL.Query()
	action := q.Get("action")
	if action == "" {
		action = "retry"
	}
	fields := []web.Field{
		{Name: "action", Label: "Do this", Kind: "select", Options: bulkActions, Value: action, Required: true},
	}
	if ids := q["ids"]; len(ids) > 0 || v.Form.Get("chosen") != "" {
		fields = append(fields, web.Field{Name: "chosen", Label: "To these sagas", Kind: "lines", Required: true,
			Value: strings.Join(ids, "\n"), Hint: "One ID per line."})
	} else {
		group := "To all sagas that match"
		for i := range sagaFilters {
			f := &sagaFilters[i]
			if value := strings.Join(q[f.Name], "\n"); f.marks&always != 0 || value != "" {
				field := f.field()
				field.Value, field.Group = value, group
				fields, group = append(fields, field), ""
			}
		}
	}
	return append(fields, web.Field{Name: "rate_per_second", Label: "Sagas per second", Kind: "number",
		Group: "Rate: a retried saga calls its participant immediately", Hint: "as fast as possible"})
}

// notFilters lists the parameters of the list that are not filters, and those of the form.
var notFilters = []string{"action", "ids", "page", "page_size", "cursor", "view", "include", "peek", "sort", "order"}

// checkFilters rejects a list whose filters include one that bulk operations lack. Without that
// filter, the action would apply to more sagas than the visitor has seen.
func checkFilters(v *web.Visit) error {
	for name := range v.URL.Query() {
		isFilter := slices.ContainsFunc(sagaFilters, func(f sagaFilter) bool { return f.Name == name })
		if !isFilter && !slices.Contains(notFilters, name) {
			return web.Malformed("The list is filtered by " + name + ", which bulk operations do not support. " +
				"Remove the filter, or select the sagas individually.")
		}
	}
	return nil
}

// newBulk is the form for one action on many sagas.
func (p *pages) newBulk(v *web.Visit) (*web.Action, error) {
	if err := checkFilters(v); err != nil {
		return nil, err
	}
	a := &web.Action{
		Label: "Start", Title: "Act on many sagas", Nav: "Sagas", Back: web.Link{Name: "Sagas", URL: "/ui/sagas"},
		Class: web.Changes, Needs: "sagas:write", DryRun: web.DryRunInBody, Fields: bulkFields(v), Show: showBulk,
		Means: "Applies one action to every matching saga that exists now. Each saga is checked individually; if it cannot accept " +
			"the action, it is skipped and the reason is recorded. If more sagas match at the start than the preview counted, " +
			"the operation halts before the first.",
		Body: bulkBody,
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.CreateSagaBulkWithBody(ctx, &client.CreateSagaBulkParams{}, web.JSON, body, edit)
		},
		Done: func(answer []byte) string {
			var b client.SagaBulk
			if json.Unmarshal(answer, &b) != nil {
				return "/ui/sagas"
			}
			return "/ui/sagas/bulk/" + b.ID.String()
		},
	}
	a.SendsCount(v)
	return a, nil
}

// bulkBody converts the members of the form to the types in the contract.
func bulkBody(_ web.Form, members map[string]any) error {
	if ids, chosen := members["chosen"]; chosen {
		delete(members, "chosen")
		members["ids"] = ids
	}
	filter, _ := members["filter"].(map[string]any)
	for i := range sagaFilters {
		name := sagaFilters[i].Name
		if text, is := filter[name].(string); is && sagaFilters[i].marks&yesNo != 0 {
			filter[name] = text == "true"
		}
	}
	if members["ids"] == nil && filter == nil {
		members["filter"] = map[string]any{} // the API reports what is wrong with it
	}
	return nil
}

// showBulk describes what a bulk operation would do.
func showBulk(answer []byte) (*web.Preview, error) {
	var dry client.SagaBulkPreview
	if err := json.Unmarshal(answer, &dry); err != nil {
		return nil, err
	}
	noun := "sagas"
	if dry.Matched == 1 {
		noun = "saga"
	}
	shown := &web.Preview{Count: &dry.Matched, Sentences: []template.HTML{
		web.Sentence("It applies to %s "+noun+".", web.Count(dry.Matched, dry.MatchedIsCapped)),
	}}
	switch {
	case dry.Examined == 0:
	case dry.Skipped == 0 && int64(dry.Examined) == dry.Matched:
		shown.Sentences = append(shown.Sentences, "Each would accept the action now.")
	case dry.Skipped == 0:
		shown.Sentences = append(shown.Sentences, web.Sentence("Each of the first %s would accept the action now.",
			web.Count(dry.Examined)))
	default:
		shown.Sentences = append(shown.Sentences, web.Sentence(
			"Of the first %s, %s would accept the action now and %s would be skipped.", web.Count(dry.Examined), web.Count(dry.Done),
			web.Count(dry.Skipped)))
	}
	shown.Sentences = append(shown.Sentences, web.Planned(dry.Changes)...)
	if len(dry.Sample) > 0 {
		shown.Heads = []string{"Saga", "Workflow", "Now", "Then"}
	}
	for _, s := range dry.Sample {
		row := []string{"saga " + s.SagaID.String(), "", "", ""}
		if s.WorkflowName != nil && s.State != nil {
			row[1], row[2] = *s.WorkflowName, web.BadgeOf(*s.State).Word
		}
		if s.Becomes != nil {
			row[3] = web.BadgeOf(*s.Becomes).Word
		} else if s.Detail != nil {
			row[3] = "skipped: " + *s.Detail
		}
		shown.Rows = append(shown.Rows, row)
	}
	shown.Ends = "Accepted means only that the action was accepted, not that it has succeeded: " +
		"the page of the bulk operation shows how each saga continues."
	return shown, nil
}

// bulkPage shows the progress of a bulk operation.
type bulkPage struct {
	*web.List    // list of its sagas
	Bulk         *client.SagaBulk
	About        string // describes which sagas it covers
	DoneX, SkipX int64  // positions in the bar, in thousandths
	SkipW        int64
	Left         int64
	State        web.Badge
	Actions      []web.Button
	Items        []bulkItem
}

// bulkItem is a saga in a bulk operation. Outcome is what the operation records: whether the saga
// accepted the action. The saga's own state shows how the saga ends.
type bulkItem struct {
	client.SagaBulkItem
	Outcome web.Badge
}

var outcomeViews = []web.View{
	{Name: "All"}, {Name: "Accepted", Filter: url.Values{"outcome": {"DONE"}}},
	{Name: "Skipped", Filter: url.Values{"outcome": {"SKIPPED"}}},
}

func (p *pages) bulk(v *web.Visit) (*web.Page, error) {
	b, err := p.readBulk(v)
	if err != nil {
		return nil, err
	}
	l, list, err := web.ListPage[client.SagaBulkItemList](v, outcomeViews, nil,
		web.Of(b.ID, p.kit.Client.ListSagaBulkItems))
	if err != nil {
		return nil, err
	}
	path := "/ui/sagas/bulk/" + b.ID.String()
	d := bulkPage{List: l, Bulk: b, About: aboutBulk(b), State: web.BulkBadge(b.State), Left: max(0, b.Expected-b.Matched)}
	for _, item := range list.Items {
		outcome := web.BadgeOf(item.Outcome)
		if item.Outcome == client.SagaBulkOutcomeDONE {
			outcome = web.Accepted
		}
		d.Items = append(d.Items, bulkItem{item, outcome})
	}
	if all := max(b.Expected, b.Matched); all > 0 {
		d.DoneX, d.SkipX, d.SkipW = 1000*b.Done/all, 1000*b.Done/all, 1000*b.Skipped/all
	}
	for i, count := range []int64{b.Matched, b.Done, b.Skipped} {
		l.Tabs[i].Count = web.Count(count)
	}
	refresh := 5
	if b.State == client.BulkStateRUNNING {
		refresh = 1
	}
	if b.EndedAt == nil && !p.kit.ReadOnly {
		if b.State == client.BulkStateHALTED {
			d.Actions = append(d.Actions, v.Button("Resume", path+"/actions/resume", "sagas:admin",
				web.ContinuesWith(b.Found, "sagas"), web.Changes))
		}
		d.Actions = append(d.Actions,
			v.Button("Change the rate", path+"/actions/rate", "sagas:admin", "The change applies to the next sagas.", web.Safe),
			v.Button("Cancel", path+"/actions/cancel", "sagas:write", "Completed changes are kept.", web.Changes))
	}
	return &web.Page{Template: "bulk", Title: "Bulk " + string(b.Action), Nav: "Sagas", Refresh: refresh, Data: d}, nil
}

// aboutBulk describes which sagas a bulk operation covers.
func aboutBulk(b *client.SagaBulk) string {
	switch {
	case b.FilterUnreadable != nil:
		return "sagas of an unreadable filter"
	case b.Filter == nil:
		return web.Count(*b.Ids) + " listed sagas"
	}
	raw, err := json.Marshal(b.Filter)
	if err != nil {
		return ""
	}
	var members map[string]any
	if json.Unmarshal(raw, &members) != nil {
		return ""
	}
	var parts []string
	for name, value := range members {
		text, err := json.Marshal(value)
		if err == nil {
			parts = append(parts, name+": "+strings.Trim(string(text), `"`))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func (p *pages) readBulk(v *web.Visit) (*client.SagaBulk, error) {
	id, err := v.ID("bulk")
	if err != nil {
		return nil, err
	}
	res, err := p.kit.Client.GetSagaBulkWithResponse(v.Context(), id)
	if err != nil {
		return nil, err
	}
	return web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
}

// bulkAction is the form that cancels a running bulk operation or changes its rate.
func (p *pages) bulkAction(v *web.Visit) (*web.Action, error) {
	b, err := p.readBulk(v)
	if err != nil {
		return nil, err
	}
	c, path := p.kit.Client, "/ui/sagas/bulk/"+b.ID.String()
	a := &web.Action{Nav: "Sagas", Back: web.Link{Name: "Bulk " + string(b.Action), URL: path},
		State: web.BulkBadge(b.State).Word, Subject: b.ID.String(), DryRun: web.DryRunInQuery,
		Done: func([]byte) string { return path }}
	switch v.PathValue("action") {
	case "cancel":
		a.Label, a.Title, a.Class, a.Needs = "Cancel it", "Cancel the bulk operation", web.Changes, "sagas:write"
		a.Means = "No further sagas are changed. Completed changes are kept."
		a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return c.CancelSagaBulkWithBody(ctx, b.ID, &client.CancelSagaBulkParams{}, web.JSON, body, edit)
		}
	case "resume":
		a.Label, a.Title, a.Class, a.Needs = "Resume it", "Resume the bulk operation", web.Changes, "sagas:admin"
		a.Means = web.ContinuesWith(b.Found, "sagas")
		a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return c.ResumeSagaBulkWithBody(ctx, b.ID, &client.ResumeSagaBulkParams{}, web.JSON, body, edit)
		}
	case "rate":
		rate := web.Field{Name: "rate_per_second", Label: "Sagas per second", Kind: "number",
			Hint: "Empty: as fast as possible."}
		if b.RatePerSecond != nil {
			raw, err := json.Marshal(*b.RatePerSecond)
			if err != nil {
				return nil, err
			}
			rate.Value = string(raw)
		}
		a.Label, a.Title, a.Needs, a.NoKey = "Change the rate", "Change the rate of the bulk operation", "sagas:admin", true
		a.Means = "The change applies to the next sagas."
		a.Edits, a.Fields, a.ETag = true, []web.Field{rate}, strconv.Quote(strconv.FormatInt(b.Version, 10))
		a.Body = func(_ web.Form, members map[string]any) error {
			if members["rate_per_second"] == nil {
				members["rate_per_second"] = nil // no limit
			}
			return nil
		}
		a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return c.UpdateSagaBulkWithBody(ctx, b.ID, &client.UpdateSagaBulkParams{}, web.JSON, body, edit)
		}
	default:
		return nil, web.ErrNoPage
	}
	return a, nil
}
