package jobpages

import (
	"slices"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// workersAtMost is how many active workers are examined to find those that take a queue.
const workersAtMost = 200

// takers are the active workers.
type takers struct {
	Workers []client.Worker
	More    bool // there are more than these
}

func (p *pages) activeWorkers(v *web.Visit) (takers, error) {
	size := client.PageSize(workersAtMost)
	res, err := p.kit.Client.ListWorkersWithResponse(v.Context(), &client.ListWorkersParams{
		State: []client.WorkerState{client.WorkerStateACTIVE}, PageSize: &size,
	})
	if err != nil {
		return takers{}, err
	}
	list, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return takers{}, err
	}
	return takers{list.Workers, list.Pagination.HasNext}, nil
}

// of counts the workers that take the runs of a queue that need a command and labels.
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
