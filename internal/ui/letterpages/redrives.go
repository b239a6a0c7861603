package letterpages

import (
	"context"
	"encoding/json"
	"html/template"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// redriveList is the page that lists the redrives.
type redriveList struct {
	*web.List
	Areas    []web.Tab
	Redrives []redriveRow
	New      *web.Button
}

type redriveRow struct {
	client.Redrive
	About string // describes which letters it covers
	Size  string // number of its letters; they are counted when it begins
	Bar   []slice
}

var redriveViews = []web.View{
	{Name: "All"},
	{Name: "Needs action", Filter: url.Values{"state": {"HALTED", "AWAITING_APPROVAL", "PAUSED"}}},
	{Name: "Running", Filter: url.Values{"state": {"PENDING", "RUNNING"}}},
	{Name: "Ended", Filter: url.Values{"state": {"COMPLETED", "CANCELED"}}},
}

func (p *pages) redrives(v *web.Visit) (*web.Page, error) {
	l, list, err := web.ListPage[client.RedriveList](v, redriveViews, nil, p.kit.Client.ListRedrives,
		"include", "total")
	if err != nil {
		return nil, err
	}
	d := redriveList{List: l, Areas: areas("Redrives")}
	page := &web.Page{Template: "redrives", Title: "Redrives", Nav: "Redrives", Refresh: 10}
	for _, r := range list.Redrives {
		d.Redrives = append(d.Redrives, rowOf(&r))
		if r.State == client.RedriveStateRUNNING {
			page.Refresh = 5
		}
	}
	if !p.kit.ReadOnly {
		b := v.Button("New redrive", "/ui/redrives/new", "dlq:write", "Retry, discard or resolve many letters.", web.Changes)
		b.Page = true
		d.New = &b
	}
	page.Data = d
	return page, nil
}

func rowOf(r *client.Redrive) redriveRow {
	row := redriveRow{Redrive: *r, About: aboutRedrive(r), Bar: slices.Collect(barOf(r)), Size: "letters, not yet counted"}
	switch {
	case r.Matched == 1:
		row.Size = "1 letter"
	case r.Matched > 0 || r.Gathered:
		row.Size = web.Count(r.Matched) + " letters"
	case r.Expected != nil && *r.Expected == 1:
		row.Size = "1 letter"
	case r.Expected != nil:
		row.Size = web.Count(*r.Expected) + " letters"
	}
	return row
}

// aboutRedrive describes which letters a redrive covers.
func aboutRedrive(r *client.Redrive) string {
	switch {
	case r.Selected != nil:
		return web.Count(*r.Selected) + " selected letters"
	case len(r.Filter) > 0:
		var filter map[string]json.RawMessage
		if json.Unmarshal(r.Filter, &filter) != nil {
			return string(r.Filter)
		}
		var words []string
		for _, name := range slices.Sorted(maps.Keys(filter)) {
			words = append(words, web.Words(name)+" "+filterWords(filter[name]))
		}
		return strings.Join(words, ", ")
	}
	return "every letter"
}

// filterWords formats the value of a filter member. Strings are shown as text, lists as
// alternatives, and anything else unchanged.
func filterWords(value json.RawMessage) string {
	var one string
	if json.Unmarshal(value, &one) == nil {
		return one
	}
	var any []string
	if json.Unmarshal(value, &any) == nil {
		return strings.Join(any, " or ")
	}
	return string(value)
}

// slice is a part of the progress bar, in percent.
type slice struct {
	X, W        float64
	Tone, Words string
	Count       int64
}

// barOf divides the letters matched by a redrive according to their outcome.
func barOf(r *client.Redrive) func(func(slice) bool) {
	return func(yield func(slice) bool) {
		whole, x := max(r.Matched, 1), 0.0
		for _, s := range []slice{
			{Count: r.Done - r.Bounced, Tone: "done", Words: "done"},
			{Count: r.Bounced, Tone: "undo", Words: "came back"},
			{Count: r.Failed, Tone: "bad", Words: "failed"},
			{Count: r.Skipped, Tone: "muted", Words: "skipped"},
		} {
			if s.Count <= 0 {
				continue
			}
			s.X, s.W = x, 1000*float64(s.Count)/float64(whole)
			x += s.W
			if !yield(s) {
				return
			}
		}
	}
}

// redrivePage is the console of a redrive.
type redrivePage struct {
	*web.List // list of its letters
	Redrive   *client.Redrive
	Row       redriveRow
	Explained []template.HTML
	Phases    []phase
	Actions   []web.Button
	ETag      string
	Rate      bool // whether the rate may be changed
	Target    string
	Failures  []failure
	Partly    bool // the failures shown are incomplete
	Items     []client.RedriveItem
	Areas     []web.Tab
}

// failure is a reason why letters failed, with their number.
type failure struct {
	Detail, Example string
	Count           int
}

func (p *pages) redriveOf(v *web.Visit) (*client.Redrive, string, error) {
	id, err := v.ID("redrive")
	if err != nil {
		return nil, "", err
	}
	res, err := p.kit.Client.GetRedriveWithResponse(v.Context(), id, &client.GetRedriveParams{})
	if err != nil {
		return nil, "", err
	}
	r, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	return r, res.HTTPResponse.Header.Get("ETag"), err
}

func (p *pages) redrive(v *web.Visit) (*web.Page, error) {
	r, etag, err := p.redriveOf(v)
	if err != nil {
		return nil, err
	}
	d := redrivePage{
		Redrive: r, Row: rowOf(r), Explained: explainedRedrive(r, v.Now),
		Phases: phasesOf(r, v.Now), Actions: p.redriveButtons(v, r), ETag: etag, Target: targetOf(r.Target),
		Areas: areas("Redrives"),
		Rate:  !p.kit.ReadOnly && v.May("dlq:admin") && slices.Contains(r.AllowedActions, client.RedriveVerbUpdate),
	}
	if r.Failed > 0 {
		res, err := p.kit.Client.ListRedriveItemsWithResponse(v.Context(), r.ID, &client.ListRedriveItemsParams{},
			web.AsQuery(url.Values{"state": {"FAILED"}, "page_size": {"200"}}))
		if err != nil {
			return nil, err
		}
		failed, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
		if err != nil {
			return nil, err
		}
		d.Failures, d.Partly = failuresOf(failed.Items), failed.Pagination.HasNext
	}
	l, list, err := web.ListPage[client.RedriveItemList](v, itemViews(), nil,
		web.Of(r.ID, p.kit.Client.ListRedriveItems))
	if err != nil {
		return nil, err
	}
	d.List, d.Items = l, list.Items
	page := &web.Page{
		Template: "redrive", Title: "Redrive: " + string(r.Action), Nav: "Redrives", Refresh: 5, Data: d,
		Scripts: []string{"letters.js"},
	}
	if r.State == client.RedriveStateRUNNING || r.State == client.RedriveStatePENDING {
		page.Refresh = 1
	}
	return page, nil
}

// itemViews are the views of a redrive's letters by state.
func itemViews() []web.View {
	views := []web.View{{Name: "all"}}
	for _, state := range []string{"FAILED", "BOUNCED", "SKIPPED", "WAITING", "TAKEN", "DONE"} {
		views = append(views, web.View{Name: web.BadgeOf(state).Word, Filter: url.Values{"state": {state}}})
	}
	return views
}

// failuresOf counts failed letters by the error that their targets reported, most frequent first.
func failuresOf(items []client.RedriveItem) (all []failure) {
	at := map[string]int{}
	for _, item := range items {
		detail := text(item.Detail)
		i, known := at[detail]
		if !known {
			i = len(all)
			at[detail] = i
			all = append(all, failure{Detail: detail, Example: item.MessageID.String()})
		}
		all[i].Count++
	}
	slices.SortStableFunc(all, func(a, b failure) int { return b.Count - a.Count })
	return all
}

// redriveVerb is one of the API's actions on a redrive.
type redriveVerb struct {
	label, means string
	class        web.Class
	send         web.Operation
}

var redriveVerbs = map[client.RedriveVerb]redriveVerb{
	client.RedriveVerbApprove: {
		"Approve", "It begins once it is approved.", web.Changes,
		web.On(client.ClientInterface.ApproveRedriveWithBody),
	},
	client.RedriveVerbResume: {
		"Resume", "It continues where it stopped.", web.Changes,
		web.On(client.ClientInterface.ResumeRedriveWithBody),
	},
	client.RedriveVerbPause: {
		"Pause", "Letters in flight are finished; no others are started.", web.Safe,
		web.On(client.ClientInterface.PauseRedriveWithBody),
	},
	client.RedriveVerbUpdate: {
		"Change the rate", "The change applies to the next letters, on all nodes.", web.Safe,
		web.On(client.ClientInterface.UpdateRedriveWithBody),
	},
	client.RedriveVerbCancel: {
		"Cancel", "Letters not yet processed keep their status. It cannot be resumed.", web.Changes,
		web.On(client.ClientInterface.CancelRedriveWithBody),
	},
}

// redriveButtons returns the actions that the API allows for a redrive.
func (p *pages) redriveButtons(v *web.Visit, r *client.Redrive) (all []web.Button) {
	if p.kit.ReadOnly {
		return nil
	}
	path := "/ui/redrives/" + r.ID.String() + "/actions/"
	for _, verb := range []client.RedriveVerb{
		client.RedriveVerbApprove, client.RedriveVerbResume, client.RedriveVerbPause, client.RedriveVerbUpdate,
		client.RedriveVerbCancel,
	} {
		if !slices.Contains(r.AllowedActions, verb) {
			continue
		}
		known := redriveVerbs[verb]
		b := v.Button(known.label, path+string(verb), "dlq:admin", known.means, known.class)
		if verb == client.RedriveVerbApprove && v.Who != nil && v.Who.Subject == r.Actor && b.Needs == "" {
			b.Needs = "someone other than its requester"
		}
		all = append(all, b)
	}
	return all
}

func (p *pages) redriveAction(v *web.Visit) (*web.Action, error) {
	name := client.RedriveVerb(v.PathValue("verb"))
	known, ok := redriveVerbs[name]
	if !ok {
		return nil, web.ErrNoPage
	}
	r, etag, err := p.redriveOf(v)
	if err != nil {
		return nil, err
	}
	path := "/ui/redrives/" + r.ID.String()
	a := &web.Action{
		Label: known.label, Title: known.label + " the redrive", Nav: "Redrives", Class: known.class, Needs: "dlq:admin",
		Back: web.Link{Name: "The redrive", URL: path}, Means: known.means, ETag: etag,
		Subject: r.ID.String(), State: web.BadgeOf(r.State).Word, DryRun: web.DryRunInQuery,
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return known.send(p.kit.Client, ctx, r.ID, body, edit)
		},
		Done: func([]byte) string { return path },
	}
	if name == client.RedriveVerbApprove && r.Expected != nil {
		a.Means += " It was requested for " + rowOf(r).Size + "."
	}
	if name == client.RedriveVerbApprove || name == client.RedriveVerbResume {
		a.Show = func([]byte) (*web.Preview, error) { return goesOn(r, v.Now), nil }
	}
	if name == client.RedriveVerbUpdate {
		a.Title, a.NoKey = "Change the redrive", true
		a.Fields = []web.Field{
			{Name: "rate_per_second", Label: "Letters per second", Kind: "number", Value: number(r.RatePerSecond)},
			{Name: "concurrency", Label: "Concurrent requests per node", Kind: "number", Value: web.Count(r.Concurrency)},
		}
	}
	if name == client.RedriveVerbResume || name == client.RedriveVerbUpdate {
		a.Edits = true
		a.Fields = append(a.Fields, stopFields(&r.StopOn)...)
		a.Body = func(form web.Form, members map[string]any) error {
			if _, shown := form["stop_on.failures"]; shown && v.Form.Has("stop_on.failures") && members["stop_on"] == nil {
				members["stop_on"] = map[string]any{} // both were emptied, so there are no conditions
			}
			return nil
		}
	}
	if name == client.RedriveVerbResume && r.State == client.RedriveStateHALTED {
		a.Means = resumed(r)
	}
	return a, nil
}

// goesOn is the preview of approving or resuming a redrive. It does not mention that the redrive is
// pending for a moment.
func goesOn(r *client.Redrive, now time.Time) *web.Preview {
	of := rowOf(r)
	switch {
	case r.ScheduledFor != nil && r.ScheduledFor.After(now):
		return &web.Preview{Ends: web.Sentence("It begins %s, and will "+string(r.Action)+" "+of.Size+".",
			web.Ago(now, *r.ScheduledFor))}
	case r.StartedAt == nil:
		return &web.Preview{Ends: plain("It begins immediately, and will " + string(r.Action) + " " + of.Size + ".")}
	case r.Left == 1:
		return &web.Preview{Ends: "It continues immediately with the 1 remaining letter."}
	}
	return &web.Preview{Ends: web.Sentence("It continues immediately with the %s remaining letters.", web.Count(r.Left))}
}

// stopFields returns the fields for the halt conditions, with their current values.
func stopFields(s *client.RedriveStop) []web.Field {
	failures := web.Field{Name: "stop_on.failures", Label: "Halt after failures", Kind: "number", Hint: "never"}
	if s.Failures != nil {
		failures.Value = number(float64(*s.Failures))
	}
	ratio := web.Field{
		Name: "stop_on.failure_ratio", Label: "Halt above a failure ratio", Kind: "number", Hint: "never",
	}
	if s.FailureRatio != nil {
		ratio.Value = number(*s.FailureRatio)
	}
	return []web.Field{failures, ratio}
}
