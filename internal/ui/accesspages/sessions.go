package accesspages

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

type sessionList struct {
	*web.List
	*client.SessionList
	Parts    []web.Tab
	ReadOnly bool
}

func (p *pages) sessions(v *web.Visit) (*web.Page, error) {
	l, list, err := web.ListPage[client.SessionList](v, nil, nil, p.kit.Client.ListSessions)
	if err != nil {
		return nil, err
	}
	d := sessionList{List: l, SessionList: list, Parts: tabs("Sessions"), ReadOnly: p.kit.ReadOnly}
	return &web.Page{Template: "sessions", Title: "Access", Nav: "Access", Data: d}, nil
}

func (p *pages) endSession(v *web.Visit) (*web.Action, error) {
	id, err := v.ID("session")
	if err != nil {
		return nil, err
	}
	means := "The user of that browser must sign in again. Other nodes end the session within 5 seconds."
	if own, err := p.ownSession(v); err != nil {
		return nil, err
	} else if own == id {
		means = "This is your current session: you will be signed out and must sign in again."
	}
	return &web.Action{
		Label: "End the session", Title: "End a session", Nav: "Access",
		Back: web.Link{Name: "Sessions", URL: "/ui/access/sessions"}, Class: web.Safe, NoReason: true, NoKey: true,
		DryRun: web.DryRunInQuery,
		Means:  means,
		Send: func(ctx context.Context, _ io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.DeleteSession(ctx, id, &client.DeleteSessionParams{}, edit)
		},
		Done: func([]byte) string { return "/ui/access/sessions" },
	}, nil
}

// ownSession returns the id of the session that the visitor's browser uses, or the zero UUID if
// there is none.
func (p *pages) ownSession(v *web.Visit) (uuid.UUID, error) {
	res, err := p.kit.Client.GetCurrentSessionWithResponse(v.Context())
	if err != nil || res.JSON200 == nil { // a visitor without a session has none to end here
		return uuid.Nil, err
	}
	return res.JSON200.ID, nil
}

// permission is a permission, the operations that require it, and whether the visitor has it.
type permission struct {
	Name       string // empty: any valid credential suffices
	Held       bool
	Operations []operation
}

type operation struct{ ID, Method, Path, Summary string }

type permissions struct {
	Parts []web.Tab
	Who   *client.CallerIdentity
	All   []permission
}

func (p *pages) permissions(v *web.Visit) (*web.Page, error) {
	byName, _, err := p.operations(v)
	if err != nil {
		return nil, err
	}
	d := permissions{Parts: tabs("Your permissions"), Who: v.Who}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		d.All = append(d.All, permission{
			Name: strings.TrimPrefix(name, "anybody"), Held: name == "anybody" || v.May(name), Operations: byName[name],
		})
	}
	return &web.Page{Template: "permissions", Title: "Access", Nav: "Access", Data: d}, nil
}

// operations returns the contract's operations by required permission, so that the table is always
// current, and their titles by operationId. It reads them only once, because the contract does not
// change while the process runs.
func (p *pages) operations(v *web.Visit) (byPermission map[string][]operation, titles map[string]string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byPermission != nil {
		return p.byPermission, p.titles, nil
	}
	res, err := p.kit.Client.GetContractWithResponse(v.Context(), &client.GetContractParams{})
	if err != nil {
		return nil, nil, err
	}
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(res.Body, &doc); err != nil {
		return nil, nil, err
	}
	all, titles := map[string][]operation{}, map[string]string{}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			var op struct {
				ID         string `json:"operationId"`
				Permission string `json:"x-permission"`
				Summary    string `json:"summary"`
			}
			if json.Unmarshal(doc.Paths[path][method], &op) != nil {
				continue
			}
			titles[op.ID] = op.Summary
			if op.Permission != "" {
				all[op.Permission] = append(all[op.Permission], operation{op.ID, strings.ToUpper(method), path, op.Summary})
			}
		}
	}
	p.byPermission, p.titles = all, titles
	return all, titles, nil
}
