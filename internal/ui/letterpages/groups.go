package letterpages

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// groupList is the page of groups: letters with the same kind of error.
type groupList struct {
	*web.List
	Areas    []web.Tab
	Groups   []groupRow
	Withheld []web.Button // actions that the visitor may not perform
}

// groupRow is a group with its possible actions.
type groupRow struct {
	client.DeadLetterGroup
	Actions []web.Button
}

var (
	groupViews = []web.View{
		{Name: "All"},
		{Name: "Needs action", Filter: url.Values{"state": {"NEW", "REGRESSED"}}},
		{Name: "New", Filter: url.Values{"state": {"NEW"}}},
		{Name: "Regressed", Filter: url.Values{"state": {"REGRESSED"}}},
		{Name: "Acknowledged", Filter: url.Values{"state": {"ACKNOWLEDGED"}}},
		{Name: "Resolved", Filter: url.Values{"state": {"RESOLVED"}}},
	}
	groupFilters = []web.Filter{{Name: "topic", Label: "Topic", Hint: "orders"},
		{Name: "error_type", Label: "Error type", Hint: "TimeoutException"}}
)

func (p *pages) groups(v *web.Visit) (*web.Page, error) {
	l, list, err := web.ListPage[client.DeadLetterGroupList](v, groupViews, groupFilters,
		p.kit.Client.ListDeadLetterGroups, "include", "total")
	if err != nil {
		return nil, err
	}
	d := groupList{List: l, Areas: areas("Groups")}
	for _, g := range list.Groups {
		d.Groups = append(d.Groups, groupRow{g, p.groupButtons(v, &g, "?from=list")})
	}
	d.Withheld = web.Withheld(d.Groups, func(g *groupRow) *[]web.Button { return &g.Actions })
	return &web.Page{Template: "groups", Title: "Dead letters", Nav: "Dead letters", Refresh: 10, Data: d}, nil
}

// groupButtons returns the actions that are possible in a group's state.
func (p *pages) groupButtons(v *web.Visit, g *client.DeadLetterGroup, from string) (all []web.Button) {
	if p.kit.ReadOnly {
		return nil
	}
	path := "/ui/dlq/groups/" + g.Fingerprint
	pending := g.Open == nil || *g.Open > 0
	if pending {
		all = append(all, redriveButton(v, g, "Retry", "retry", web.Changes,
			"Retry its pending letters: ten first, then the rest if none of them comes back."))
	}
	add := func(label, verb, means string) {
		all = append(all, v.Button(label, path+"/"+verb+from, "dlq:write", means, web.Safe))
	}
	switch g.State {
	case client.DeadLetterGroupStateNEW, client.DeadLetterGroupStateREGRESSED:
		add("Acknowledge", "acknowledge", "It is under investigation.")
		add("Resolve", "resolve", "The cause is fixed. If another letter arrives, the group becomes regressed.")
	case client.DeadLetterGroupStateACKNOWLEDGED:
		add("Resolve", "resolve", "The cause is fixed. If another letter arrives, the group becomes regressed.")
	case client.DeadLetterGroupStateRESOLVED:
		add("Reopen", "reopen", "The cause is not fixed.")
	}
	add("Assign", "assign", "Who is investigating, and a note.")
	if pending {
		all = append(all, redriveButton(v, g, "Discard", "discard", web.Dangerous,
			"Discard its pending letters. They are no longer retried."))
	}
	return all
}

// editOf returns the button for editing the only letter of a group, which helps if the content is
// the cause. A group of several letters has no such button.
func (p *pages) editOf(v *web.Visit, g *client.DeadLetterGroup, letters []client.DeadLetter) (one []web.Button) {
	open := 0
	for i := range letters {
		l := &letters[i]
		if l.Status != client.DeadLetterStatusPENDING {
			continue
		}
		open++
		if !p.kit.ReadOnly && allows(l, client.DeadLetterVerbRetry) && editable(l) {
			one = []web.Button{editButton(v, l)}
		}
	}
	if open != 1 || g.Open == nil || *g.Open != 1 {
		return nil
	}
	return one
}

// redriveButton opens the form for redriving a group's letters.
func redriveButton(
	v *web.Visit, g *client.DeadLetterGroup, label, action string, class web.Class, means string,
) web.Button {
	b := v.Button(label, web.Redrive(action, url.Values{"fingerprint": {g.Fingerprint}}), "dlq:write", means, class)
	b.Page = true
	return b
}

// groupPage shows one group with its newest letters.
type groupPage struct {
	Group   *client.DeadLetterGroup
	Letters []client.DeadLetter
	Actions []web.Button
	Areas   []web.Tab
	Now     time.Time
}

func (p *pages) groupOf(v *web.Visit) (*client.DeadLetterGroup, string, error) {
	res, err := p.kit.Client.GetDeadLetterGroupWithResponse(v.Context(), v.PathValue("fingerprint"))
	if err != nil {
		return nil, "", err
	}
	g, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	return g, res.HTTPResponse.Header.Get("ETag"), err
}

func (p *pages) group(v *web.Visit) (*web.Page, error) {
	g, _, err := p.groupOf(v)
	if err != nil {
		return nil, err
	}
	d := groupPage{Group: g, Areas: areas("Groups"), Now: v.Now, Actions: p.groupButtons(v, g, "")}
	res, err := p.kit.Client.ListDeadLettersWithResponse(v.Context(), &client.ListDeadLettersParams{},
		web.AsQuery(url.Values{"fingerprint": {g.Fingerprint}, "page_size": {"20"}}))
	if err != nil {
		return nil, err
	}
	list, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	d.Letters = list.Messages
	d.Actions = append(p.editOf(v, g, d.Letters), d.Actions...)
	return &web.Page{Template: "group", Title: g.Message, Nav: "Dead letters", Refresh: 5, Data: d}, nil
}

// groupVerbs are the actions on a group. Each is an update of the group.
var groupVerbs = map[string]struct {
	label, means, state string
	assign              bool
}{
	"acknowledge": {label: "Acknowledge", state: "ACKNOWLEDGED", assign: true,
		means: "It is under investigation. The group stays acknowledged while more letters of this kind arrive."},
	"resolve": {label: "Resolve", state: "RESOLVED",
		means: "The cause is fixed. The letters stay as they are; if another one arrives, the group becomes regressed."},
	"reopen": {label: "Reopen", state: "NEW", means: "The cause is not fixed."},
	"assign": {label: "Assign", assign: true, means: "Who is investigating. An empty field clears the value."},
}

func (p *pages) groupAction(v *web.Visit) (*web.Action, error) {
	verb, ok := groupVerbs[v.PathValue("verb")]
	if !ok {
		return nil, web.ErrNoPage
	}
	g, etag, err := p.groupOf(v)
	if err != nil {
		return nil, err
	}
	back := web.Link{Name: g.Message, URL: "/ui/dlq/groups/" + g.Fingerprint}
	if v.URL.Query().Get("from") == "list" {
		back = web.Link{Name: "Groups", URL: "/ui/dlq"}
	}
	a := &web.Action{
		Label: verb.label, Title: verb.label + ": " + g.Message, Nav: "Dead letters", Back: back, Means: verb.means,
		Needs: "dlq:write", ETag: etag, NoKey: true, Edits: true, Subject: g.Fingerprint,
		State: web.BadgeOf(g.State).Word, DryRun: web.DryRunInQuery,
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.UpdateDeadLetterGroupWithBody(
				ctx, g.Fingerprint, &client.UpdateDeadLetterGroupParams{}, web.JSON, body, edit)
		},
		Done: func([]byte) string { return back.URL },
	}
	if verb.assign {
		a.Fields = append(a.Fields, web.Field{Name: "assignee", Label: "Assignee", Value: text(g.Assignee)})
	}
	a.Fields = append(a.Fields, web.Field{Name: "note", Label: "Note", Kind: "long", Value: text(g.Note)})
	a.Body = func(form web.Form, members map[string]any) error {
		if verb.state != "" {
			members["state"] = verb.state
		}
		web.Emptied(form, members, map[string]*string{"assignee": g.Assignee, "note": g.Note})
		return nil
	}
	return a, nil
}
