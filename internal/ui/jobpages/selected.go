package jobpages

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// selectedAtMost is the maximum number of runs that may be selected, which is the size of a list.
const selectedAtMost = 200

// selectedRun is a selected run, with the effect of the action on it.
type selectedRun struct {
	ID      uuid.UUID
	Run     *client.JobRun // nil: it does not exist
	Allowed bool
	Status  int
	Detail  string // the reason why it was rejected
}

// selected is the form for an action on the runs that were selected in a list. Each run is handled
// by a separate request.
func (p *pages) selected(v *web.Visit) (*web.Action, error) {
	verb := client.JobRunVerb(v.Form.Get("action"))
	known, ok := runActionsByName[verb]
	text := v.Form.Get("runs")
	if v.Form.Has("run") {
		text = strings.Join(v.Form["run"], "\n")
	}
	ids := strings.Fields(text)
	if !ok || len(ids) > selectedAtMost {
		return nil, web.ErrNoPage
	}
	if len(ids) == 0 {
		return nil, web.Malformed("No run is selected.")
	}
	v.Form.Set("runs", strings.Join(ids, "\n"))
	all := make([]selectedRun, len(ids))
	for i, id := range ids {
		parsed, err := uuid.Parse(id)
		if err != nil {
			return nil, web.Malformed("A selected run has an invalid ID.")
		}
		all[i].ID = parsed
	}
	label := fmt.Sprintf("%s %d runs", known.label, len(all))
	if len(all) == 1 {
		label = known.label + " 1 run"
	}
	a := &web.Action{
		Label: label, Title: label, Nav: "Jobs", Back: web.Link{Name: "Runs", URL: "/ui/runs"}, Class: web.Changes,
		Needs: "jobs:write", Means: known.means,
		Fields: []web.Field{
			{Name: "runs", Kind: "hidden"}, {Name: "action", Kind: "hidden", Value: string(verb)},
		},
		Body: func(_ web.Form, body map[string]any) error {
			delete(body, "runs")
			delete(body, "action")
			return nil
		},
		Foresee: func(ctx context.Context, body []byte) (*web.Preview, error) {
			return p.foreseeSelected(ctx, all, verb, body)
		},
	}
	a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
		raw, err := io.ReadAll(body)
		if err != nil {
			return nil, err
		}
		for i := range all {
			if err := p.sendSelected(ctx, &all[i], known.send, raw, edit); err != nil {
				return nil, err
			}
		}
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}
	a.Result = func([]byte) (*web.Page, error) {
		return &web.Page{Template: "runs-acted", Title: label, Nav: "Jobs", Data: all}, nil
	}
	return a, nil
}

// foreseeSelected lists what the action would change in each run, with old and new values.
func (p *pages) foreseeSelected(
	ctx context.Context, all []selectedRun, verb client.JobRunVerb, body []byte,
) (*web.Preview, error) {
	shown := &web.Preview{Heads: []string{"Run", "Job", "State", "What changes"}}
	basic, allowed := client.GetJobRunParamsViewBasic, 0
	for i := range all {
		s := &all[i]
		res, err := p.kit.Client.GetJobRunWithResponse(ctx, s.ID, &client.GetJobRunParams{View: &basic})
		if err != nil {
			return nil, err
		}
		s.Run = res.JSON200
		row := []string{"run " + s.ID.String(), "", "", "nothing: the run does not exist"}
		if s.Run != nil {
			row[1], row[2] = s.Run.JobDefinition.Name, web.BadgeOf(s.Run.State).Word
			if row[3], err = p.foreseeOne(ctx, s, verb, body); err != nil {
				return nil, err
			}
			if s.Allowed {
				allowed++
			}
		}
		shown.Rows = append(shown.Rows, row)
	}
	shown.Ends = web.Sentence("The action is possible for %s of these runs.", allowed)
	return shown, nil
}

// foreseeOne describes the response to a dry run of the action on a run.
func (p *pages) foreseeOne(
	ctx context.Context, s *selectedRun, verb client.JobRunVerb, body []byte,
) (string, error) {
	if !slices.Contains(s.Run.AllowedActions, verb) {
		return "not possible in this state", nil
	}
	answer := *s
	dry := func(ctx context.Context, r *http.Request) error {
		r.URL.RawQuery = url.Values{"dry_run": {"true"}}.Encode()
		return web.ChangesNothing(ctx, r)
	}
	if err := p.sendSelected(ctx, &answer, runActionsByName[verb].send, body, dry); err != nil {
		return "", err
	}
	if s.Allowed = answer.Run != nil; !s.Allowed {
		return "nothing: " + answer.Detail, nil
	}
	if answer.Run.Changes == nil || len(*answer.Run.Changes) == 0 {
		return "nothing", nil
	}
	return web.PlannedText(*answer.Run.Changes), nil
}

// sendSelected performs the action on one run. The Idempotency-Key is derived from the form and the
// run, so that a form that is sent twice acts only once.
func (p *pages) sendSelected(
	ctx context.Context, s *selectedRun, send web.Operation, body []byte, edit client.RequestEditorFn,
) error {
	res, err := send(p.kit.Client, ctx, s.ID, bytes.NewReader(body), func(ctx context.Context, r *http.Request) error {
		if err := edit(ctx, r); err != nil {
			return err
		}
		if key := r.Header.Get("Idempotency-Key"); key != "" {
			r.Header.Set("Idempotency-Key", key+"-"+s.ID.String())
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	s.Status, s.Detail, s.Run = res.StatusCode, "", nil
	if res.StatusCode >= http.StatusMultipleChoices {
		var problem client.Problem
		_ = json.Unmarshal(raw, &problem) // the status suffices
		s.Detail = problem.Detail
		if res.StatusCode == http.StatusForbidden { // all others would fail in the same way
			return &web.Refusal{Problem: problem}
		}
		return nil
	}
	var r client.JobRun
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	s.Run = &r
	return nil
}
