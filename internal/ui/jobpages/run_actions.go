package jobpages

import (
	"context"
	"io"
	"net/http"
	"slices"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// runAction is one of the API's actions on a run.
type runAction struct {
	label, means string
	fields       []web.Field
	send         web.Operation
}

// runActions are in the order of their buttons: canceling a run that hangs is more common than
// giving it to another worker.
var runActions = []client.JobRunVerb{client.JobRunVerbRerun, client.JobRunVerbCancel, client.JobRunVerbReassign}

var runActionsByName = map[client.JobRunVerb]runAction{
	client.JobRunVerbCancel: {
		label: "Cancel",
		means: "A run that has not started is canceled. If it is running, its worker is asked to stop, and the result " +
			"is rejected if it does not stop in time.",
		fields: []web.Field{{Name: "force", Kind: "check",
			Label: "Do not wait for the worker: its process may continue, but its result is rejected"}},
		send: web.On(client.ClientInterface.CancelJobRunWithBody),
	},
	client.JobRunVerbReassign: {
		label: "Reassign",
		means: "Takes the run from its worker. Another worker can claim it immediately, and calls from the previous worker " +
			"are rejected. This does not count as a loss.",
		fields: []web.Field{{Name: "force", Kind: "check",
			Label: "Even if it is running: its process may still be running when the next attempt starts"}},
		send: web.On(client.ClientInterface.ReassignJobRunWithBody),
	},
	client.JobRunVerbRerun: {
		label: "Rerun", means: meansRerun,
		fields: []web.Field{
			{Name: "args", Label: "Arguments (empty: the same as before)", Kind: "json"},
			{Name: "overlap", Kind: "check", Label: startsAnyway},
		},
		send: web.On(client.ClientInterface.RerunJobRunWithBody),
	},
}

// runButtons returns the actions on a run. The only prominent one is the rerun of a run that did
// not do its work and was not repeated.
func (p *pages) runButtons(v *web.Visit, r *client.JobRun, repeated bool) (all []web.Button) {
	if p.kit.ReadOnly {
		return nil
	}
	for _, verb := range runActions {
		if slices.Contains(r.AllowedActions, verb) {
			a := runActionsByName[verb]
			b := v.Button(a.label, runVerbPath(r, verb), "jobs:write", a.means, web.Changes)
			b.Quiet = verb != client.JobRunVerbRerun || repeated || !slices.Contains(didNothing, r.State)
			all = append(all, b)
		}
	}
	return all
}

func (p *pages) runAction(v *web.Visit) (*web.Action, error) {
	verb := client.JobRunVerb(v.PathValue("action"))
	known, ok := runActionsByName[verb]
	if !ok {
		return nil, web.ErrNoPage
	}
	r, _, err := p.gotRun(v)
	if err != nil {
		return nil, err
	}
	path := "/ui/runs/" + r.ID.String()
	title := r.JobDefinition.Name + " " + web.Short(r.ID)
	a := &web.Action{
		Label: known.label, Title: known.label + " " + title, Nav: "Jobs", Back: web.Link{Name: title, URL: path},
		Class: web.Changes, Needs: "jobs:write", Means: known.means, Fields: slices.Clone(known.fields),
		Body: overlapping, DryRun: web.DryRunInQuery, State: web.BadgeOf(r.State).Word,
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return known.send(p.kit.Client, ctx, r.ID, body, edit)
		},
		Done: func([]byte) string { return path },
	}
	switch verb {
	case client.JobRunVerbRerun:
		a.Done, a.Fields[0].Hint, a.Ways = runAnswered, string(r.Args), p.waysOut(v)
		a.Means += " Its worker is given the same due time as in this run: " + stamp(r.ScheduledFor) + "."
		runs, err := p.retriesOf(v, r.RootRunID)
		if err != nil {
			return nil, err
		}
		for i := range runs { // a list that omits these runs still offers to run it again
			if repeats(&runs[i], r.ID) {
				a.Means += " It has already been rerun by run " + web.Short(runs[i].ID) + ", which is " +
					web.BadgeOf(runs[i].State).Word + "."
				break
			}
		}
		a.Foresee = func(ctx context.Context, body []byte) (*web.Preview, error) {
			beside, err := p.beside(ctx, v, r.JobDefinition.ID.String(), body)
			return &web.Preview{Sentences: beside}, err
		}
		if r.ConcurrencyPolicy == client.JobConcurrencyPolicyAllow {
			a.Fields = a.Fields[:1]
		}
	case client.JobRunVerbCancel:
		a.Label = "Cancel the run" // next to Back, the word alone could mean the form
	}
	return a, nil
}
