package sagapages

import (
	"net/url"
	"slices"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// mostGrouped is how many sagas are grouped by their errors, the newest ones.
const mostGrouped = 200

// errorGroup is sagas that need attention for the same reason at the same step.
type errorGroup struct {
	Workflow, Step, Code, Message string
	Count                         int
	First, Last                   time.Time
	Sample                        string
	URL                           string // of these sagas, as far as the list can select them
}

type errorsPage struct {
	Groups []errorGroup
	Shown  int
	Partly bool
	Now    time.Time
}

// errors groups the newest sagas that need attention by what went wrong.
func (p *pages) errors(v *web.Visit) (*web.Page, error) {
	res, err := p.kit.Client.ListSagasWithResponse(v.Context(), &client.ListSagasParams{
		NeedsAttention: new(true), PageSize: new(int32(mostGrouped)), WorkflowName: v.Query("workflow_name"),
	})
	if err != nil {
		return nil, err
	}
	list, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	d := errorsPage{Now: v.Now, Shown: len(list.Sagas), Partly: list.Pagination.NextCursor != nil}
	at := map[[3]string]int{}
	for i := range list.Sagas {
		s := &list.Sagas[i]
		key := [3]string{s.WorkflowName, "", ""}
		message := ""
		if s.CurrentStepName != nil {
			key[1] = *s.CurrentStepName
		}
		if s.Error != nil {
			key[2], message = s.Error.Code, s.Error.Message
		} else if s.AttentionReason != nil {
			key[2] = *s.AttentionReason
		}
		n, known := at[key]
		if !known {
			n, at[key] = len(d.Groups), len(d.Groups)
			only := url.Values{"needs_attention": {"true"}, "workflow_name": {key[0]}}
			d.Groups = append(d.Groups, errorGroup{Workflow: key[0], Step: key[1], Code: key[2], Message: message,
				Last: s.CreatedAt, Sample: s.SagaID.String(), URL: "/ui/sagas?" + only.Encode()})
		}
		g := &d.Groups[n]
		g.Count++
		g.First = s.CreatedAt // the list is newest first
	}
	slices.SortStableFunc(d.Groups, func(a, b errorGroup) int { return b.Count - a.Count })
	return &web.Page{Template: "errors", Title: "Errors of sagas", Nav: "Sagas", Refresh: 10, Data: d}, nil
}
