package systempages

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// timelinePage shows everything with one correlation ID, both as lanes on a common axis and as a
// list.
type timelinePage struct {
	Correlation string
	Lanes       []*lane
	Entries     []client.TimelineEntry
	Marks       []timeMark // marks along the axis
	Folds       []timeFold
	Present     float64 // position of the current time; negative: everything has ended
	Omitted     []string
	Later       string // URL of the entries after these; empty: these are all
	First       string // URL of the first entries; empty: these are the first
	Unfolded    string // URL with all waits folded again; empty: none is unfolded
	Now         time.Time
}

// lane shows a saga, one of its steps, a run, or a dead letter.
type lane struct {
	Kind, Name, URL string
	State           string // empty for a step
	Inner           bool   // whether this is a step of the saga above
	Bars            []laneBar
}

// laneBar is a period in which something happened. The bar of a whole saga or run is drawn behind
// its parts.
type laneBar struct {
	X, W        float64
	Tone, Title string
	Whole, Back bool
}

type timeMark struct{ web.AxisLabel }

// At returns the position within the width of the drawing, because texts must not be stretched with
// it.
func (m timeMark) At() string { return fmt.Sprintf("%.2f%%", m.X) }

// timeFold is a wait that is drawn shortened, with the URL that draws it at full length.
type timeFold struct {
	X, W       float64
	Title, URL string
}

const (
	axisWidth = 720.0
	axisChar  = 2.3 // percentage of the axis at its narrowest that a character of a label takes
	// mostEntries is the number of pages, of 200 entries each, that are drawn at once.
	mostEntryPages = 5
)

func (p *pages) timeline(v *web.Visit) (*web.Page, error) {
	q := v.URL.Query()
	d := &timelinePage{Correlation: strings.TrimSpace(q.Get("correlation_id")), Now: v.Now, Present: -1}
	page := &web.Page{Template: "timeline", Title: "Timeline", Nav: "Timeline", Data: d}
	if d.Correlation == "" {
		return page, nil
	}
	if err := p.entries(v, d); err != nil {
		return nil, err
	}
	d.draw(q)
	page.Title, page.Refresh = "Timeline of "+d.Correlation, 5
	if d.Present >= 0 {
		page.Refresh = 2
	}
	return page, nil
}

// entries reads the timeline from the cursor in the URL.
func (p *pages) entries(v *web.Visit, d *timelinePage) error {
	sent := url.Values{"correlation_id": {d.Correlation}, "page_size": {"200"}}
	if c := v.Query("cursor"); c != nil {
		sent.Set("cursor", *c)
		d.First = "?" + url.Values{"correlation_id": {d.Correlation}}.Encode()
	}
	for range mostEntryPages {
		res, err := p.kit.Client.GetTimelineWithResponse(v.Context(), &client.GetTimelineParams{}, web.AsQuery(sent))
		if err != nil {
			return err
		}
		found, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
		if err != nil {
			return err
		}
		d.Entries, d.Omitted, d.Later = append(d.Entries, found.Entries...), nil, ""
		for _, what := range found.Omitted {
			d.Omitted = append(d.Omitted, web.Words(what))
		}
		if found.NextCursor == nil {
			return nil
		}
		sent.Set("cursor", *found.NextCursor)
		d.Later = "?" + url.Values{"correlation_id": {d.Correlation}, "cursor": {*found.NextCursor}}.Encode()
	}
	return nil
}

// draw lays out the entries. The "open" parameters are the start times of the waits that are drawn
// at full length.
func (d *timelinePage) draw(q url.Values) {
	var busy []web.Interval
	running := false
	for i := range d.Entries {
		e := &d.Entries[i]
		end, now := d.endOf(e)
		running = running || now
		if isWhole(e) { // only its beginning and end are used; what happened in between is in other entries
			busy = append(busy, web.Interval{From: e.At, To: e.At}, web.Interval{From: end, To: end})
		} else {
			busy = append(busy, web.Interval{From: e.At, To: end})
		}
	}
	var open []time.Time
	for _, at := range q["open"] {
		if t, err := time.Parse(time.RFC3339Nano, at); err == nil {
			open = append(open, t)
		}
	}
	if open != nil {
		q.Del("open")
		d.Unfolded = "?" + q.Encode()
	}
	axis := web.NewScale(busy, axisWidth, open...)
	if running {
		d.Present = axis.At(d.Now)
	}
	labels := web.AxisLabels{PerChar: axisChar}
	for i, p := range axis.Pieces {
		if p.Folded {
			to := url.Values{"correlation_id": {d.Correlation}, "open": {p.From.UTC().Format(time.RFC3339Nano)}}
			for _, at := range open {
				to.Add("open", at.UTC().Format(time.RFC3339Nano))
			}
			if c := q.Get("cursor"); c != "" {
				to.Set("cursor", c)
			}
			d.Folds = append(d.Folds, timeFold{
				p.X0, p.X1 - p.X0, web.Duration(p.To.Sub(p.From)) + " in which nothing happened", "?" + to.Encode(),
			})
			continue
		}
		text := "+" + web.Duration(p.Since)
		if i == 0 {
			text = p.From.UTC().Format("2006-01-02 15:04:05") + " UTC"
		}
		if at, free := labels.Place(p.X0*100/axisWidth, text, false); free {
			d.Marks = append(d.Marks, timeMark{at})
		}
	}
	d.lanes(axis)
}

// isWhole reports whether an entry stands for a whole saga or run, from its beginning to its end.
func isWhole(e *client.TimelineEntry) bool {
	return e.Kind == client.TimelineEntryKindSaga || e.Kind == client.TimelineEntryKindJobRun
}

// endOf returns when an entry ended, and whether it is still in progress. An entry without a
// duration ends when it begins.
func (d *timelinePage) endOf(e *client.TimelineEntry) (end time.Time, running bool) {
	switch e.Kind {
	case client.TimelineEntryKindSaga, client.TimelineEntryKindJobRun, client.TimelineEntryKindStep,
		client.TimelineEntryKindJobAttempt:
		if e.EndedAt == nil {
			return d.Now, true
		}
	}
	if e.EndedAt != nil && e.EndedAt.After(e.At) {
		return *e.EndedAt, false
	}
	return e.At, false
}

// lanes puts each entry into the lane of the item that it is about. Steps are placed below their
// saga, in the order in which they were first called.
func (d *timelinePage) lanes(axis *web.Scale) {
	heads, steps := map[string]*lane{}, map[string][]*lane{}
	var order []string
	head := func(id, kind, name, to string) *lane {
		if heads[id] == nil {
			heads[id] = &lane{Kind: kind, Name: name, URL: to}
			order = append(order, id)
		}
		return heads[id]
	}
	for i := range d.Entries {
		e := &d.Entries[i]
		end, running := d.endOf(e)
		bar := laneBar{X: axis.At(e.At), Tone: toneOf(e, running), Title: titleOf(e, end, running), Whole: isWhole(e)}
		bar.W = max(3, axis.At(end)-bar.X)
		bar.X = min(bar.X, axisWidth-bar.W)
		bar.Back = e.Action != nil && *e.Action == string(client.StepActionCOMPENSATE)
		var at *lane
		switch {
		case e.Kind == client.TimelineEntryKindSagaEnd || e.Kind == client.TimelineEntryKindJobRunEnd:
			continue // it is the end of the whole bar
		case e.MessageID != nil:
			id := e.MessageID.String()
			at = head(id, "dead letter", e.Name, "/ui/dlq/letters/"+id)
			if e.Kind == client.TimelineEntryKindDeadLetter {
				at.State = e.State
			}
		case e.RunID != nil:
			id := e.RunID.String()
			if at = head(id, "run", e.Name, "/ui/runs/"+id); bar.Whole {
				at.State = e.State
			}
		case e.SagaID != nil:
			id := e.SagaID.String()
			if at = head(id, "saga", "", "/ui/sagas/"+id); bar.Whole {
				at.Name, at.State = e.Name, e.State
				break
			}
			of := e.Name
			at = nil
			for _, l := range steps[id] {
				if l.Name == of {
					at = l
				}
			}
			if at == nil {
				at = &lane{Kind: "step", Name: of, URL: "/ui/sagas/" + id, Inner: true}
				steps[id] = append(steps[id], at)
			}
		default:
			at = head(string(e.Kind)+e.Name, web.Words(e.Kind), e.Name, "")
		}
		at.Bars = append(at.Bars, bar)
	}
	for _, id := range order {
		d.Lanes = append(append(d.Lanes, heads[id]), steps[id]...)
	}
}

func toneOf(e *client.TimelineEntry, running bool) string {
	switch {
	case running:
		return "run"
	case e.Kind == client.TimelineEntryKindStep && e.State == string(client.StepLogStatusSUCCESS):
		if e.Action != nil && *e.Action == string(client.StepActionCOMPENSATE) {
			return "undo"
		}
		return "done"
	case e.Kind == client.TimelineEntryKindStep && e.State != string(client.StepLogStatusSKIPPED):
		return "bad"
	}
	return web.BadgeOf(e.State).Tone
}

func titleOf(e *client.TimelineEntry, end time.Time, running bool) string {
	text := web.Words(e.Kind) + " " + e.Name
	if e.Action != nil {
		text += " " + strings.ToLower(*e.Action)
	}
	if e.Number != nil {
		text += fmt.Sprintf(" %d", *e.Number)
	}
	text += ": " + web.Words(e.State)
	if e.Code != nil {
		text += " " + *e.Code
	}
	switch took := web.Duration(end.Sub(e.At)); {
	case running:
		text += ", for " + took
	case end.After(e.At):
		text += " after " + took
	}
	return text
}
