package jobpages

import (
	"cmp"
	"net/url"
	"slices"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// workerList is the page that lists the workers, the queues and the scheduler.
type workerList struct {
	*web.List
	*client.WorkerList
	Queues   []queueRow
	Active   []client.Worker // the columns of the matrix of queues
	More     bool            // there are more definitions or workers than were checked
	Leader   *client.SchedulerLeader
	StepDown []web.Button
}

// queueRow is a queue with the active workers that take its runs.
type queueRow struct {
	Name    string
	Jobs    int      // number of definitions with this queue
	Taken   []bool   // for each column, whether that worker takes its runs
	Takers  int      // total number of such workers
	Names   []string // their names, if there are too many for columns
	Slots   int32    // total of their slots
	Due     string   // number of runs that are due and waiting; empty: unknown
	Waiting bool
}

const (
	matrixColumns = 12 // maximum number of columns; with more workers, a list of names is easier to read
	queuesAtMost  = 50 // maximum number of queues whose waiting runs are counted
)

var workerViews = []web.View{
	{Name: "Connected", Filter: url.Values{"state": {"ACTIVE", "DRAINING", "LOST"}}},
	{Name: "Active", Filter: url.Values{"state": {"ACTIVE"}}},
	{Name: "Draining", Filter: url.Values{"state": {"DRAINING"}}},
	{Name: "Lost", Filter: url.Values{"state": {"LOST"}}},
	{Name: "Detached", Filter: url.Values{"state": {"DETACHED"}}},
	{Name: "All"},
}

func (p *pages) workers(v *web.Visit) (*web.Page, error) {
	l, list, err := web.ListPage[client.WorkerList](v, workerViews, nil, p.kit.Client.ListWorkers,
		"include", "total")
	if err != nil {
		return nil, err
	}
	d := workerList{List: l, WorkerList: list}
	if err := p.queues(v, &d); err != nil {
		return nil, err
	}
	leader, err := p.kit.Client.GetLeaderWithResponse(v.Context())
	if err != nil {
		return nil, err
	}
	if d.Leader, err = web.Got(leader.JSON200, leader.ApplicationProblemJSONDefault); err != nil {
		return nil, err
	}
	if d.Leader.Alive && !p.kit.ReadOnly {
		b := v.Button("Step down", "/ui/scheduler/step-down", "jobs:admin",
			"Another node or the same one becomes leader with a new epoch.", web.Dangerous)
		b.Needs = v.Lacks("jobs:admin", true)
		d.StepDown = []web.Button{b}
	}
	return &web.Page{Template: "workers", Title: "Workers", Nav: "Workers", Refresh: 5, Data: d}, nil
}

// queues builds the matrix of queues and workers. Queues without an active worker come first.
func (p *pages) queues(v *web.Visit, d *workerList) error {
	active, err := p.activeWorkers(v)
	if err != nil {
		return err
	}
	enabled, size := true, client.PageSize(200)
	res, err := p.kit.Client.ListJobDefinitionsWithResponse(
		v.Context(), &client.ListJobDefinitionsParams{Enabled: &enabled, PageSize: &size},
	)
	if err != nil {
		return err
	}
	jobs, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return err
	}
	d.More = active.More || jobs.Pagination.HasNext
	d.Queues = matrix(jobs.JobDefinitions, active.Workers)
	if len(active.Workers) <= matrixColumns {
		d.Active = active.Workers
	}
	for i := range d.Queues {
		if i < queuesAtMost {
			if err := p.countDue(v, &d.Queues[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// matrix builds the rows for the queues of jobs and workers.
func matrix(jobs []client.JobDefinition, workers []client.Worker) (rows []queueRow) {
	at := map[string]int{}
	row := func(queue string) *queueRow {
		if _, ok := at[queue]; !ok {
			at[queue] = len(rows)
			rows = append(rows, queueRow{Name: queue, Taken: make([]bool, len(workers))})
		}
		return &rows[at[queue]]
	}
	for i := range jobs {
		row(jobs[i].Queue).Jobs++
	}
	for i := range workers {
		for _, queue := range workers[i].Queues {
			r := row(queue)
			r.Taken[i] = true
			r.Takers++
			r.Slots += workers[i].MaxRuns
			r.Names = append(r.Names, workers[i].Name)
		}
	}
	slices.SortStableFunc(rows, func(a, b queueRow) int {
		return cmp.Or(cmp.Compare(min(a.Takers, 1), min(b.Takers, 1)), cmp.Compare(a.Name, b.Name))
	})
	return rows
}

// countDue counts the runs of a queue that are due and waiting.
func (p *pages) countDue(v *web.Visit, q *queueRow) error {
	size, queue := client.PageSize(1), q.Name
	list, err := p.listed(v.Context(), &client.ListJobRunsParams{
		Queue: &queue, State: []client.JobRunState{client.JobRunStatePENDING}, ScheduledTo: &v.Now, PageSize: &size,
		Include: []string{"total"},
	})
	if err != nil {
		return err
	}
	if n := list.Pagination.TotalCount; n != nil {
		capped := list.Pagination.TotalIsCapped
		q.Due, q.Waiting = web.Count(*n, capped != nil && *capped), *n > 0
	}
	return nil
}

// workerPage shows one worker.
type workerPage struct {
	*client.Worker
	Has     []runRow // runs that it holds
	Had     []runRow // runs that ended on it
	Actions []web.Button
	Now     time.Time
}

func (p *pages) gotWorker(v *web.Visit) (*client.Worker, error) {
	id, err := v.ID("worker")
	if err != nil {
		return nil, err
	}
	res, err := p.kit.Client.GetWorkerWithResponse(v.Context(), id)
	if err != nil {
		return nil, err
	}
	return web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
}

// held lists the states of runs that a worker holds.
var held = []client.JobRunState{client.JobRunStateASSIGNED, client.JobRunStateRUNNING}

// ended lists the final states of runs.
var ended = []client.JobRunState{
	client.JobRunStateSUCCEEDED, client.JobRunStateFAILED, client.JobRunStateTIMEDOUT, client.JobRunStateCANCELED,
	client.JobRunStateSKIPPED,
}

func (p *pages) worker(v *web.Visit) (*web.Page, error) {
	w, err := p.gotWorker(v)
	if err != nil {
		return nil, err
	}
	d := workerPage{Worker: w, Now: v.Now, Actions: p.workerButtons(v, w)}
	for _, part := range []struct {
		states []client.JobRunState
		rows   *[]runRow
	}{{held, &d.Has}, {ended, &d.Had}} {
		size := client.PageSize(50)
		list, err := p.listed(v.Context(),
			&client.ListJobRunsParams{Worker: &w.WorkerID, State: part.states, PageSize: &size})
		if err != nil {
			return nil, err
		}
		*part.rows = p.rowsOf(v, list.JobRuns)
	}
	return &web.Page{Template: "worker", Title: w.Name, Nav: "Workers", Refresh: 5, Data: d}, nil
}
