package jobpages

import (
	"slices"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// workersAtMost is the number of active workers that are checked to find those that take runs from
// a queue.
const workersAtMost = 200

// takers is a set of workers, usually the active ones.
type takers struct {
	Workers []client.Worker
	More    bool // there are more than these
}

func (p *pages) activeWorkers(v *web.Visit) (takers, error) {
	return p.workersIn(v, workersAtMost, client.WorkerStateACTIVE)
}

// workersIn returns the newest workers in the given states.
func (p *pages) workersIn(v *web.Visit, most int, states ...client.WorkerState) (takers, error) {
	size := client.PageSize(most)
	asked := client.ListWorkersParams{State: states, PageSize: &size}
	res, err := p.kit.Client.ListWorkersWithResponse(v.Context(), &asked)
	if err != nil {
		return takers{}, err
	}
	list, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return takers{}, err
	}
	return takers{list.Workers, list.Pagination.HasNext}, nil
}

// from returns the workers that take runs from a queue, whatever their commands and labels.
func (t takers) from(queue string) (all []client.Worker) {
	for i := range t.Workers {
		if slices.Contains(t.Workers[i].Queues, queue) {
			all = append(all, t.Workers[i])
		}
	}
	return all
}

// of counts the workers that take those runs of a queue that require a command and labels.
func (t takers) of(queue, command string, labels *client.JobLabels) (n int) {
	for i := range t.Workers {
		w := &t.Workers[i]
		if !slices.Contains(w.Queues, queue) || len(w.Commands) > 0 && !slices.Contains(w.Commands, command) {
			continue
		}
		fits := true
		if labels != nil {
			for name, value := range *labels {
				fits = fits && slices.Contains(w.Labels, name+"="+value)
			}
		}
		if fits {
			n++
		}
	}
	return n
}
