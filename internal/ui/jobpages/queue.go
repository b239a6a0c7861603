package jobpages

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// queuePage shows a queue of job runs.
type queuePage struct {
	*client.JobQueue
	Takers  []client.Worker // the active workers that take its runs
	Unsure  bool            // there are more active workers than were checked
	Others  []client.Worker // if none is active: the newest that could take its runs, and why they do not
	Actions []web.Button
	Now     time.Time
}

// othersAtMost is the number of workers checked that do not take runs at present.
const othersAtMost = 50

// Held reports whether a person is holding its runs back.
func (q *queuePage) Held() bool { return q.State == client.JobQueueStateHELD }

// Tone returns the tone of the first sentence on the page. It is green only if runs of the queue
// are being taken.
func (q *queuePage) Tone() string {
	switch {
	case q.Held():
		return "bad"
	case len(q.Takers) > 0:
		return "done"
	case q.Unsure:
		return "muted"
	}
	return "undo"
}

func (p *pages) gotQueue(v *web.Visit) (*client.JobQueue, string, error) {
	res, err := p.kit.Client.GetJobQueueWithResponse(v.Context(), v.PathValue("queue"))
	if err != nil {
		return nil, "", err
	}
	q, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	return q, res.HTTPResponse.Header.Get("ETag"), err
}

const (
	meansHoldQueue    = "Workers get no new runs from this queue. Waiting runs keep their order; runs that workers already have continue."
	meansReleaseQueue = "Its runs are assigned again, in order."
)

func queuePath(name string) string { return "/ui/queues/" + url.PathEscape(name) }

func (p *pages) queue(v *web.Visit) (*web.Page, error) {
	q, _, err := p.gotQueue(v)
	if err != nil {
		return nil, err
	}
	d := &queuePage{JobQueue: q, Now: v.Now}
	if err := p.takersOf(v, d); err != nil {
		return nil, err
	}
	if !p.kit.ReadOnly {
		d.Actions = []web.Button{v.Button("Hold", queuePath(q.Name)+"/hold", "jobs:admin", meansHoldQueue, web.Changes)}
		if q.State == client.JobQueueStateHELD {
			d.Actions = []web.Button{
				v.Button("Release", queuePath(q.Name)+"/release", "jobs:admin", meansReleaseQueue, web.Changes),
			}
		}
	}
	return &web.Page{Template: "queue", Title: "Queue " + q.Name, Nav: "Workers", Refresh: 5, Data: d}, nil
}

// takersOf finds the workers that currently take runs from the queue or, if there are none, the
// workers that would do so if they were active.
func (p *pages) takersOf(v *web.Visit, d *queuePage) error {
	active, err := p.workersIn(v, workersAtMost, client.WorkerStateACTIVE)
	if err != nil {
		return err
	}
	d.Takers, d.Unsure = active.from(d.Name), active.More
	if len(d.Takers) > 0 {
		return nil
	}
	others, err := p.workersIn(v, othersAtMost,
		client.WorkerStateDRAINING, client.WorkerStateLOST, client.WorkerStateDETACHED)
	d.Others = others.from(d.Name)
	return err
}

// onQueue is the form for an action on the queue in the URL.
func (p *pages) onQueue(v *web.Visit, label, means string) (*web.Action, *client.JobQueue, error) {
	q, etag, err := p.gotQueue(v)
	if err != nil {
		return nil, nil, err
	}
	at := queuePath(q.Name)
	return &web.Action{
		Label: label, Title: label + " queue " + q.Name, Nav: "Workers", Back: web.Link{Name: q.Name, URL: at},
		Needs: "jobs:admin", Means: means, ETag: etag, Subject: q.Name, State: string(q.State),
		Class: web.Changes, DryRun: web.DryRunInQuery, Done: func([]byte) string { return at },
	}, q, nil
}

func (p *pages) holdQueue(v *web.Visit) (*web.Action, error) {
	a, q, err := p.onQueue(v, "Hold", meansHoldQueue)
	if err != nil {
		return nil, err
	}
	a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
		return p.kit.Client.HoldJobQueueWithBody(ctx, q.Name, &client.HoldJobQueueParams{}, web.JSON, body, edit)
	}
	return a, nil
}

func (p *pages) releaseQueue(v *web.Visit) (*web.Action, error) {
	a, q, err := p.onQueue(v, "Release", meansReleaseQueue)
	if err != nil {
		return nil, err
	}
	a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
		return p.kit.Client.ReleaseJobQueueWithBody(ctx, q.Name, &client.ReleaseJobQueueParams{}, web.JSON, body, edit)
	}
	return a, nil
}
