package accesspages

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// auditTabs lists the tabs of the audit trail.
func auditTabs(current string) []web.Tab {
	return web.Parts(current, web.Link{Name: "Actions", URL: "audit"},
		web.Link{Name: "Saga events", URL: "audit/events"}, web.Link{Name: "Verify", URL: "audit/verify"})
}

type actionList struct {
	*web.List
	Parts   []web.Tab
	Actions []action
}

// action is a recorded action with its changes.
type action struct {
	client.Action
	What         string         // title of the operation in the contract, or kind and verb of the action
	ByRequest    string         // URL of the list of actions of the same request
	Page, Called string         // page and name of the subject; empty without a page
	Changes      []change       // from before to after, if both were recorded
	Facts        map[string]any // other members of the action's detail
}

// titleOf returns the contract's title for the operation of an action, or "" if no request
// performed it. An action that is part of a bulk operation has the title of the operation on a
// single item.
func titleOf(titles map[string]string, a *client.Action) string {
	if a.Operation != nil {
		return titles[*a.Operation]
	}
	if a.Kind == client.ActionKindSaga {
		return titles[a.Verb+"Saga"]
	}
	return ""
}

// change is a member whose value differs.
type change struct{ Name, Before, After string }

// told parses the detail of an action. Settings have before and after; policies have before and
// policy.
func told(a client.Action) action {
	out := action{Action: a, Facts: map[string]any{}}
	out.Page, out.Called = subjectOf(&a)
	d := json.NewDecoder(bytes.NewReader(a.Detail))
	d.UseNumber()
	if len(a.Detail) == 0 || d.Decode(&out.Facts) != nil {
		return out
	}
	before, tells := out.Facts["before"].(map[string]any)
	for _, name := range []string{"after", "policy"} {
		after, both := out.Facts[name].(map[string]any)
		if !tells || !both {
			continue
		}
		delete(out.Facts, "before")
		delete(out.Facts, name)
		members := maps.Clone(before)
		maps.Copy(members, after)
		for _, member := range slices.Sorted(maps.Keys(members)) {
			was, is := shown(before[member]), shown(after[member])
			if was != is && !slices.Contains(notContent, member) {
				out.Changes = append(out.Changes, change{member, was, is})
			}
		}
	}
	return out
}

// subjectPages contains the paths of the pages of subjects, by kind; %s is replaced by the subject.
var subjectPages = map[client.ActionKind]string{
	client.ActionKindSaga:            "sagas/%s",
	client.ActionKindSagaBulk:        "sagas/bulk/%s",
	client.ActionKindCertification:   "certifications/%s",
	client.ActionKindWorkflow:        "workflows/%s",
	client.ActionKindDeadLetter:      "dlq/letters/%s",
	client.ActionKindDeadLetterGroup: "dlq/groups/%s",
	client.ActionKindTopicPolicy:     "dlq/topics/%s",
	client.ActionKindRedrive:         "redrives/%s",
	client.ActionKindJobDefinition:   "jobs/%s",
	client.ActionKindJobRun:          "runs/%s",
	client.ActionKindJobBackfill:     "backfills/%s",
	client.ActionKindJobBulk:         "run-bulks/%s",
	client.ActionKindJobWorker:       "workers/%s",
	client.ActionKindWebhook:         "webhooks/%s",
	client.ActionKindParticipant:     "participants/%s",
}

// subjectOf returns the path of the page of an action's subject, and its name with an id that
// distinguishes it from others.
func subjectOf(a *client.Action) (page, called string) {
	called = web.Short(a.Subject)
	if _, err := uuid.Parse(a.Subject); err != nil {
		called = a.Subject
	}
	if a.SubjectName != nil {
		called = *a.SubjectName + " " + called
	}
	if form, has := subjectPages[a.Kind]; has && a.Subject != "*" {
		page = fmt.Sprintf(form, url.PathEscape(a.Subject))
	}
	return page, called
}

// notContent lists the members of a policy that differ in every version.
var notContent = []string{"updated_at", "updated_by", "version"}

// shown formats a value as text.
func shown(v any) string {
	if v == nil {
		return "default"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return strings.Trim(string(text), `"`)
}

var actionFilters = []web.Filter{
	{Name: "actor", Label: "Actor", Hint: "key:ops"}, {Name: "kind", Label: "Kind", Hint: "saga"},
	{Name: "subject", Label: "Subject"}, {Name: "verb", Label: "Verb", Hint: "create"},
	{Name: "operation", Label: "Operation", Hint: "createAPIKey"}, {Name: "request_id", Label: "Request"},
	{Name: "from", Label: "From", Hint: "-24h", Time: true}, {Name: "to", Label: "To", Time: true},
}

var actionViews = []web.View{
	{Name: "This tenant"},
	{Name: "Whole deployment", Filter: url.Values{"scope": {"deployment"}}},
}

func (p *pages) actions(v *web.Visit) (*web.Page, error) {
	l, list, err := web.ListPage[client.ActionList](v, actionViews, actionFilters, p.kit.Client.ListActions)
	if err != nil {
		return nil, err
	}
	d := actionList{List: l, Parts: auditTabs("Actions")}
	_, titles, err := p.operations(v)
	if err != nil {
		return nil, err
	}
	for _, a := range list.Actions {
		row := told(a)
		row.What = cmp.Or(titleOf(titles, &a), web.Capital(web.Words(a.Kind))+": "+web.Words(a.Verb))
		if a.RequestID != nil {
			of := url.Values{"request_id": {*a.RequestID}}
			if scope := l.Value("scope"); scope != "" {
				of.Set("scope", scope)
			}
			row.ByRequest = "?" + of.Encode()
		}
		d.Actions = append(d.Actions, row)
	}
	return &web.Page{Template: "audit-actions", Title: "Audit", Nav: "Audit", Refresh: 10, Data: d}, nil
}

type eventList struct {
	*web.List
	*client.AuditEventList
	Parts  []web.Tab
	Live   string // URL of the stream of further events if this is the last page; otherwise empty
	Recent string // URL of the last page
}

// Participant returns the name of the participant that an event is about, or "" if it is about a
// saga.
func (eventList) Participant(e client.AuditEvent) string {
	var of struct {
		Participant string `json:"participant"`
	}
	if e.SagaID == uuid.Nil {
		_ = json.Unmarshal(e.EventData, &of)
	}
	return of.Participant
}

var eventFilters = []web.Filter{
	{Name: "event_type", Label: "Type", Hint: "saga.started"}, {Name: "workflow_name", Label: "Workflow"},
	{Name: "saga_id", Label: "Saga"}, {Name: "actor", Label: "Actor"}, {Name: "trace_id", Label: "Trace"},
	{Name: "from", Label: "From", Hint: "-24h", Time: true}, {Name: "to", Label: "To", Time: true},
}

func (p *pages) events(v *web.Visit) (*web.Page, error) {
	l, list, err := web.ListPage[client.AuditEventList](v, nil, eventFilters, p.kit.Client.ListEvents)
	if err != nil {
		return nil, err
	}
	d := eventList{List: l, AuditEventList: list, Parts: auditTabs("Saga events"), Recent: l.With("from", "-15m")}
	if next := list.Pagination.NextCursor; !list.Pagination.HasNext && next != nil {
		sent := d.Sent("page", "", "page_size", "", "include", "", "cursor", *next)
		d.Live = "/saga-events/stream?" + sent.Encode()
	}
	return &web.Page{
		Template: "audit-events", Title: "Audit", Nav: "Audit", Data: d, Scripts: []string{"audit.js"},
	}, nil
}
