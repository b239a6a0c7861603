package letterpages

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// letterVerb is one of the API's actions on a letter.
type letterVerb struct {
	label, permission, means string
	class                    web.Class
	fields                   []web.Field
	noKey                    bool
	send                     web.Operation
}

var force = web.Field{Name: "force", Label: "Even if a saga is waiting for it", Kind: "check"}

var letterVerbs = map[client.DeadLetterVerb]letterVerb{
	client.DeadLetterVerbRetry: {
		label: "Retry", permission: "dlq:write", class: web.Safe,
		means: "It is sent to its target now, and Skald waits for the response. If the target does not accept it, this counts as a " +
			"failed retry.",
		send: web.On(client.ClientInterface.RetryDeadLetterWithBody),
	},
	client.DeadLetterVerbRequeue: {
		label: "Requeue", permission: "dlq:admin", class: web.Changes,
		means: "It becomes pending again, with at least one retry left.",
		fields: []web.Field{
			{Name: "max_retries", Label: "Maximum retries", Kind: "number"},
			{Name: "reset_retry_count", Label: "Reset its retry count", Kind: "check"},
		},
		send: web.On(client.ClientInterface.RequeueDeadLetterWithBody),
	},
	client.DeadLetterVerbDiscard: {
		label: "Discard", permission: "dlq:write", class: web.Changes,
		means:  "It becomes dead and is no longer retried. Its content is kept until its retention ends.",
		fields: []web.Field{force},
		send:   web.On(client.ClientInterface.DiscardDeadLetterWithBody),
	},
	client.DeadLetterVerbResolve: {
		label: "Resolve", permission: "dlq:write", class: web.Changes,
		means: "It was handled elsewhere. Nothing is sent.",
		send:  web.On(client.ClientInterface.ResolveDeadLetterWithBody),
	},
	client.DeadLetterVerbAck: {
		label: "Report the outcome", permission: "dlq:write", class: web.Safe,
		means: "Reports what its consumer did with it. A failure counts as a failed retry, and the letter becomes pending or dead again.",
		fields: []web.Field{{Name: "outcome", Label: "Outcome", Kind: "select", Options: []web.Option{
			{Value: "PROCESSED", Label: "it was processed"}, {Value: "FAILED", Label: "it failed again"},
		}}},
		send: web.On(client.ClientInterface.AcknowledgeDeadLetterWithBody),
	},
	client.DeadLetterVerbUpdate: {
		label: "Edit the notes", permission: "dlq:write", class: web.Safe, noKey: true,
		means: "Its content never changes. An empty field clears the value.",
		send:  web.On(client.ClientInterface.UpdateDeadLetterWithBody),
	},
	client.DeadLetterVerbDelete: {
		label: "Delete", permission: "dlq:admin", class: web.Dangerous, noKey: true,
		means:  "It is deleted with its attempts and revisions. The audit trail still records that it existed.",
		fields: []web.Field{force}, send: deleteLetter,
	},
	client.DeadLetterVerbRestore: {
		label: "Restore", permission: "dlq:admin", class: web.Changes,
		means: "It becomes pending, but is not retried automatically.",
		send:  web.On(client.ClientInterface.RestoreDeadLetterWithBody),
	},
}

// deleteLetter sends the members of the body as parameters.
func deleteLetter(
	c *client.ClientWithResponses, ctx context.Context, id uuid.UUID, body io.Reader, edit client.RequestEditorFn,
) (*http.Response, error) {
	params := &client.DeleteDeadLetterParams{}
	var form struct {
		Reason string
		Force  *bool
	}
	if err := json.NewDecoder(body).Decode(&form); err != nil {
		return nil, err
	}
	params.Reason, params.Force = form.Reason, form.Force
	return c.DeleteDeadLetter(ctx, id, params, edit)
}

// accepted describes the action that was just accepted, which is given in a parameter of the URL.
var accepted = map[string]string{
	"retry":   "Sent.",
	"failed":  "The retry failed. The target's response is below.",
	"requeue": "Accepted. It is pending again.", "discard": "Accepted. It is discarded.",
	"resolve": "Accepted. It counts as handled.", "ack": "Accepted.", "update": "Accepted.",
	"restore": "Accepted. It is no longer in the archive.",
}

// letterButtons returns the actions that the API allows for a letter, with irreversible ones last.
// The most helpful one comes first: an edit, if the same content is unlikely to succeed.
func (p *pages) letterButtons(v *web.Visit, l *client.DeadLetter) (all []web.Button) {
	if p.kit.ReadOnly {
		return nil
	}
	path := "/ui/dlq/letters/" + l.ID.String() + "/actions/"
	for _, verb := range []client.DeadLetterVerb{
		client.DeadLetterVerbRetry, client.DeadLetterVerbRestore, client.DeadLetterVerbRequeue, client.DeadLetterVerbAck,
		client.DeadLetterVerbResolve, client.DeadLetterVerbDiscard, client.DeadLetterVerbUpdate, client.DeadLetterVerbDelete,
	} {
		if !allows(l, verb) {
			continue
		}
		known := letterVerbs[verb]
		b := v.Button(known.label, path+string(verb), known.permission, known.means, known.class)
		b.Quiet = verb == client.DeadLetterVerbAck // a letter that was sent needs nothing else
		all = append(all, b)
		if verb == client.DeadLetterVerbRetry && editable(l) {
			at := len(all)
			if l.ErrorClass == client.DeadLetterErrorClassPERMANENT {
				at = 0 // the first button is prominent
			}
			all = slices.Insert(all, at, editButton(v, l))
		}
	}
	return all
}

// editButton opens the form for changing what a retry sends.
func editButton(v *web.Visit, l *client.DeadLetter) web.Button {
	b := v.Button("Edit and retry", "/ui/dlq/letters/"+l.ID.String()+"/actions/edit", "dlq:write",
		"Change what is sent; the original stays.", web.Changes)
	b.Page = true
	return b
}

func allows(l *client.DeadLetter, verb client.DeadLetterVerb) bool {
	for _, allowed := range l.AllowedActions {
		if allowed == verb {
			return true
		}
	}
	return false
}

func (p *pages) letterAction(v *web.Visit) (*web.Action, error) {
	name := client.DeadLetterVerb(v.PathValue("verb"))
	known, ok := letterVerbs[name]
	if !ok {
		return nil, web.ErrNoPage
	}
	l, res, err := p.letterOf(v)
	if err != nil {
		return nil, err
	}
	a := p.actionOn(l, res, known, string(name))
	a.Edits = name == client.DeadLetterVerbUpdate
	switch name {
	case client.DeadLetterVerbRetry:
		a.Show = func(answer []byte) (*web.Preview, error) {
			shown, err := retried(l, v.Now, answer)
			if err != nil {
				return nil, err
			}
			also, err := p.alsoIn(v.Context(), l.ID)
			shown.Sentences = append(shown.Sentences, also...)
			return shown, err
		}
	case client.DeadLetterVerbAck:
		a.Body = func(_ web.Form, members map[string]any) error {
			members["generation"] = l.Generation
			return nil
		}
	case client.DeadLetterVerbUpdate:
		notesOf(a, l, v.Now)
	case client.DeadLetterVerbDelete:
		a.Confirm, a.About = l.ID.String()[len(l.ID.String())-6:], "the end of the letter's id"
		a.Done = func([]byte) string { return "/ui/dlq/letters" }
	case client.DeadLetterVerbRestore:
		a.ETag = "" // the operation takes no ETag
	}
	if of := ofSaga(l); of != nil && name == client.DeadLetterVerbResolve {
		a.Means = "Its saga treats the step as compensated manually and continues. Do this only if the step has actually been compensated."
	}
	return a, nil
}

// retried is the preview of a retry. Its outcome depends on the target.
func retried(l *client.DeadLetter, now time.Time, answer []byte) (*web.Preview, error) {
	var dry client.DeadLetterRetryResult
	if err := json.Unmarshal(answer, &dry); err != nil {
		return nil, err
	}
	shown := &web.Preview{Ends: web.Sentence("It is sent to %s and resolved if it is accepted.", destination(l))}
	if dry.Changes != nil {
		shown.Sentences = web.Planned(*dry.Changes)
	}
	if l.NextRetryAt != nil && l.NextRetryAt.After(now) {
		shown.Ends += web.Sentence(" Otherwise, its policy reschedules the automatic retry planned for %s: later, or not at "+
			"all.", web.When(now, *l.NextRetryAt))
	}
	return shown, nil
}

// actionOn returns the common part of the forms for actions on a letter.
func (p *pages) actionOn(
	l *client.DeadLetter, res *client.GetDeadLetterResponse, known letterVerb, name string,
) *web.Action {
	page := "/ui/dlq/letters/" + l.ID.String()
	return &web.Action{
		Label: known.label, Title: known.label + ": " + titleOf(l), Nav: "Dead letters", Class: known.class,
		Back: web.Link{Name: titleOf(l), URL: page}, Needs: known.permission, Means: known.means, NoKey: known.noKey,
		Fields: append([]web.Field(nil), known.fields...), ETag: res.HTTPResponse.Header.Get("ETag"),
		Subject: l.ID.String(), State: web.BadgeOf(l.Status).Word, DryRun: web.DryRunInQuery,
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return known.send(p.kit.Client, ctx, l.ID, body, edit)
		},
		Done: func([]byte) string { return page + "?accepted=" + name },
		Failed: func(status int, answer []byte) string {
			var problem client.Problem
			if json.Unmarshal(answer, &problem) == nil && problem.Code == "DLQ_PROCESS_FAILED" {
				return page + "?accepted=failed" // it was retried, so the letter has changed
			}
			return ""
		},
	}
}

// notesOf fills the form for the notes on a letter.
func notesOf(a *web.Action, l *client.DeadLetter, now time.Time) {
	a.Fields = []web.Field{
		{Name: "assignee", Label: "Assignee", Value: text(l.Assignee)},
		{Name: "note", Label: "Note", Kind: "long", Value: text(l.Note)},
		{Name: "labels", Label: "Labels, one per line", Kind: "lines", Value: strings.Join(l.Labels, "\n")},
	}
	if l.Status == client.DeadLetterStatusPENDING {
		a.Fields = append(a.Fields,
			web.Field{Name: "next_retry_at", Label: "Retry it at", Hint: "10m, or 2026-11-23T12:00:00Z"},
			web.Field{Name: "max_retries", Label: "Maximum retries", Kind: "number", Hint: web.Count(l.MaxRetries)})
	}
	a.Body = func(form web.Form, members map[string]any) error {
		web.Emptied(form, members, map[string]*string{"assignee": l.Assignee, "note": l.Note})
		if form["labels"] == "" && len(l.Labels) > 0 {
			members["labels"] = []string{}
		}
		if at, ok := web.Relative(now, form["next_retry_at"]); ok {
			members["next_retry_at"] = at.UTC().Format(time.RFC3339)
		}
		return nil
	}
}

// editable reports whether the content of a letter can be changed for a retry. Webhooks and sagas
// always send their own content.
func editable(l *client.DeadLetter) bool {
	switch l.Target.Kind {
	case client.DeadLetterTargetKindKafka, client.DeadLetterTargetKindHTTP, client.DeadLetterTargetKindJobRun:
		return true
	}
	return false
}
