package workflowpages

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// figures count the sagas of one or more versions of a workflow by outcome.
type figures struct {
	Pending, Active, Completed, Compensated, Failed, Cancelled, Attention int64
	Last                                                                  *time.Time
}

func (f *figures) add(s *client.SagaStatistics) {
	f.Pending += s.PendingCount
	f.Active += s.ActiveCount
	f.Completed += s.CompletedCount
	f.Compensated += s.CompensatedCount
	f.Failed += s.FailedCount - s.CancelledCount
	f.Cancelled += s.CancelledCount
	f.Attention += s.NeedsAttentionCount
	if f.Last == nil || f.Last.Before(s.LastExecution) {
		f.Last = &s.LastExecution
	}
}

// Live counts the sagas that have not ended.
func (f *figures) Live() int64 { return f.Pending + f.Active }

// FailureRate is defined as in the API: the share of sagas with the status FAILED among all ended
// sagas.
func (f *figures) FailureRate() string {
	return web.Percent(f.Compensated+f.Failed, f.Compensated+f.Failed+f.Completed+f.Cancelled)
}

// counts are the figures of the versions of workflows.
type counts struct {
	versions map[string]map[int]*figures
	Refused  bool // the visitor may not see them
	Partial  bool // there are more than a page reads
}

// Of returns the figures of a version, which are all zero if it has no sagas.
func (c *counts) Of(name string, version int) *figures {
	if f := c.versions[name][version]; f != nil {
		return f
	}
	return &figures{}
}

// All returns the sum over all versions of a workflow.
func (c *counts) All(name string) *figures {
	sum := &figures{}
	for _, f := range c.versions[name] {
		last := sum.Last
		if f.Last != nil && (last == nil || last.Before(*f.Last)) {
			last = f.Last
		}
		*sum = figures{
			sum.Pending + f.Pending, sum.Active + f.Active, sum.Completed + f.Completed, sum.Compensated + f.Compensated,
			sum.Failed + f.Failed, sum.Cancelled + f.Cancelled, sum.Attention + f.Attention, last,
		}
	}
	return sum
}

// mostPages is the maximum number of pages of statistics that are read.
const mostPages = 10

// countsOf reads the statistics of one workflow, or of all workflows if name is nil, for the sagas
// created since a time.
func (p *pages) countsOf(v *web.Visit, name *string, since string) (*counts, error) {
	c := &counts{versions: map[string]map[int]*figures{}}
	q := map[string][]string{"page_size": {"200"}}
	if name != nil {
		q["workflow_name"] = []string{*name}
	}
	if since != "" {
		q["created_from"] = []string{since}
	}
	for range mostPages {
		res, err := p.kit.Client.ListSagaStatisticsWithResponse(v.Context(), &client.ListSagaStatisticsParams{},
			web.AsQuery(q))
		if err != nil {
			return nil, err
		}
		list, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
		if err != nil {
			var refused *web.Refusal
			if errors.As(err, &refused) && refused.Status == http.StatusForbidden {
				c.Refused = true
				return c, nil
			}
			return nil, err
		}
		for i := range list.Statistics {
			s := &list.Statistics[i]
			if c.versions[s.WorkflowName] == nil {
				c.versions[s.WorkflowName] = map[int]*figures{}
			}
			f := &figures{}
			f.add(s)
			c.versions[s.WorkflowName][s.WorkflowVersion] = f
		}
		if list.Pagination.NextCursor == nil {
			return c, nil
		}
		q["cursor"] = []string{*list.Pagination.NextCursor}
	}
	c.Partial = true
	return c, nil
}

// versionID names a version in the form used by the saga list's filter.
func versionID(name string, version int) string { return name + "@" + strconv.Itoa(version) }
