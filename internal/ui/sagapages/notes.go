package sagapages

import (
	"context"
	"io"
	"net/http"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

const mayNote = "sagas:write"

// noteButtons open the form for the note: one as it is, and one with the visitor as assignee.
func (p *pages) noteButtons(v *web.Visit, s *client.Saga) (all []web.Button) {
	if p.kit.ReadOnly {
		return nil
	}
	path := "/ui/sagas/" + s.SagaID.String() + "/actions/note"
	me := v.Who.Subject
	if s.Assignee == nil || *s.Assignee != me {
		all = append(all, v.Button("Assign to me", path+"?assign=me", mayNote, "Take responsibility for this saga", web.Safe))
	}
	return append(all, v.Button("Assignee and note", path, mayNote,
		"Record who is responsible for this saga, and anything others should know", web.Safe))
}

// note is the form for a saga's note and assignee.
func (p *pages) note(v *web.Visit) (*web.Action, error) {
	id, err := v.ID("saga")
	if err != nil {
		return nil, err
	}
	res, err := p.kit.Client.GetSagaWithResponse(v.Context(), id, &client.GetSagaParams{})
	if err != nil {
		return nil, err
	}
	s, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	page := "/ui/sagas/" + id.String()
	a := &web.Action{
		Label: "Save", Title: "Assignee and note: " + titleOf(s), Nav: "Sagas",
		Back: web.Link{Name: titleOf(s), URL: page}, Needs: mayNote,
		Means: "The saga itself does not change, and calls in progress are not affected. " +
			"The audit trail records who wrote the note and why, but not its text.",
		Fields: []web.Field{
			{Name: "assignee", Label: "Assignee", Value: value(s.Assignee)},
			{Name: "note", Label: "Note", Kind: "long", Value: value(s.Note)},
		},
		ETag: res.HTTPResponse.Header.Get("ETag"), NoKey: true, Edits: true, Subject: id.String(),
		DryRun: web.DryRunInQuery,
		Body: func(form web.Form, members map[string]any) error {
			web.Emptied(form, members, map[string]*string{"assignee": s.Assignee, "note": s.Note})
			return nil
		},
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.UpdateSagaWithBody(ctx, id, &client.UpdateSagaParams{}, web.JSON, body, edit)
		},
		Done: func([]byte) string { return page },
	}
	if v.Form.Get("assign") == "me" {
		a.Label, a.Fields[0].Value = "Assign to me", v.Who.Subject
	}
	return a, nil
}
