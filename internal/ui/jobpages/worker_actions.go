package jobpages

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// workerAction is one of the API's actions on a worker.
type workerAction struct {
	name, label, means, warning, needs string
	class                              web.Class
	send                               web.Operation
}

var workerActions = []workerAction{
	{
		name: "drain", label: "Drain", class: web.Changes, needs: "jobs:work",
		means: "The worker finishes its runs and gets no new ones. It is notified at its next heartbeat.",
		send:  web.On(client.ClientInterface.DrainWorkerWithBody),
	},
	{
		name: "undrain", label: "Undrain", class: web.Changes, needs: "jobs:write",
		means: "The worker gets runs again.",
		send:  web.On(client.ClientInterface.UndrainWorkerWithBody),
	},
	{
		name: "undetach", label: "Reattach", class: web.Changes, needs: "jobs:write",
		means: "The worker is lost until its next heartbeat or claim, which makes it active again. Runs that other workers " +
			"have taken in the meantime stay with them.",
		send: web.On(client.ClientInterface.UndetachWorkerWithBody),
	},
	{
		name: "detach", label: "Detach", class: web.Dangerous, needs: "jobs:write",
		means: "Its runs go to other workers unless it confirms them, and its process must register again.",
		warning: "The runs below are in doubt immediately: their processes may still be running when other workers start " +
			"them again.",
		send: web.On(client.ClientInterface.DetachWorkerWithBody),
	},
}

func (p *pages) workerButtons(v *web.Visit, w *client.Worker) (all []web.Button) {
	if p.kit.ReadOnly {
		return nil
	}
	for _, a := range workerActions {
		if slices.Contains(w.AllowedActions, a.name) {
			all = append(all, v.Button(
				a.label, "/ui/workers/"+w.WorkerID.String()+"/actions/"+a.name, a.needs, a.means, a.class,
			))
		}
	}
	return all
}

func (p *pages) workerAction(v *web.Visit) (*web.Action, error) {
	i := slices.IndexFunc(workerActions, func(a workerAction) bool { return a.name == v.PathValue("action") })
	if i < 0 {
		return nil, web.ErrNoPage
	}
	known := workerActions[i]
	w, err := p.gotWorker(v)
	if err != nil {
		return nil, err
	}
	path := "/ui/workers/" + w.WorkerID.String()
	a := &web.Action{
		Label: known.label, Title: known.label + " " + w.Name, Nav: "Workers", Back: web.Link{Name: w.Name, URL: path},
		Class: known.class, Needs: known.needs, Means: known.means, Warning: known.warning,
		State: web.BadgeOf(w.State).Word, DryRun: web.DryRunInQuery,
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return known.send(p.kit.Client, ctx, w.WorkerID, body, edit)
		},
		Done:    func([]byte) string { return path },
		Foresee: func(ctx context.Context, _ []byte) (*web.Preview, error) { return p.runsOf(ctx, w.WorkerID) },
	}
	if known.class == web.Dangerous {
		a.Confirm, a.About = lastSix(w.WorkerID.String()), "the end of the worker's id"
	}
	return a, nil
}

// runsOf lists the runs that a worker holds.
func (p *pages) runsOf(ctx context.Context, worker uuid.UUID) (*web.Preview, error) {
	size := client.PageSize(100)
	list, err := p.listed(ctx,
		&client.ListJobRunsParams{Worker: &worker, State: held, PageSize: &size, Include: []string{"total"}})
	if err != nil {
		return nil, err
	}
	if len(list.JobRuns) == 0 {
		return &web.Preview{Ends: "It has no runs."}, nil
	}
	shown := &web.Preview{Heads: []string{"Run", "Job", "State", "Attempt"}}
	shown.Ends = web.Sentence("Current runs: %s", web.Count(list.Pagination.TotalCount))
	for i := range list.JobRuns {
		r := &list.JobRuns[i]
		shown.Rows = append(shown.Rows, []string{
			"run " + r.ID.String(), r.JobDefinition.Name, web.BadgeOf(r.State).Word, strconv.Itoa(r.Attempt),
		})
	}
	return shown, nil
}

// stepDown is the form that makes the scheduler's leader step down.
func (p *pages) stepDown(v *web.Visit) (*web.Action, error) {
	res, err := p.kit.Client.GetLeaderWithResponse(v.Context())
	if err != nil {
		return nil, err
	}
	leader, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	a := &web.Action{
		Label: "Step down", Title: "Make the scheduler's leader step down", Nav: "Workers",
		Back: web.Link{Name: "Workers", URL: "/ui/workers"}, Class: web.Dangerous, Needs: "jobs:admin", Deployment: true,
		Means:   "Within a second or two, another node or the same one becomes leader with a new epoch.",
		Warning: "Until then no new runs are assigned, for any tenant. Workers keep their current runs.",
		Confirm: strconv.FormatInt(leader.Epoch, 10), About: "the epoch of the leader", DryRun: web.DryRunInQuery,
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.StepDownLeaderWithBody(ctx, &client.StepDownLeaderParams{}, web.JSON, body, edit)
		},
		Done: func([]byte) string { return "/ui/workers" },
	}
	return a, nil
}
