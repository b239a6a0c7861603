package accesspages

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

const accessAdmin = "access:admin"

// tabs lists the tabs of the page about access.
func tabs(current string) []web.Tab {
	return web.Parts(current, web.Link{Name: "API keys", URL: "access"},
		web.Link{Name: "Sessions", URL: "access/sessions"}, web.Link{Name: "Your permissions", URL: "access/permissions"})
}

type keyList struct {
	*web.List
	Parts  []web.Tab
	Keys   []client.APIKey
	Create []web.Button
}

var (
	keyViews = []web.View{
		{Name: "Active", Filter: url.Values{"active": {"true"}}},
		{Name: "Revoked and expired", Filter: url.Values{"active": {"false"}}},
		{Name: "All"},
	}
	keyFilters = []web.Filter{{Name: "tenant_id", Label: "Tenant", Hint: "UUID"}}
)

func (p *pages) keys(v *web.Visit) (*web.Page, error) {
	if !v.May(accessAdmin) { // users who may not see keys are shown their own permissions
		return &web.Page{Data: web.Redirect("/ui/access/permissions")}, nil
	}
	l, list, err := web.ListPage[client.APIKeyList](v, keyViews, keyFilters, p.kit.Client.ListAPIKeys)
	if err != nil {
		return nil, err
	}
	d := keyList{List: l, Parts: tabs("API keys"), Keys: list.APIKeys}
	if !p.kit.ReadOnly {
		d.Create = []web.Button{v.Button("New API key", "/ui/access/keys/new", accessAdmin,
			"Creates a key, which is shown only once.", web.Safe)}
	}
	return &web.Page{Template: "keys", Title: "Access", Nav: "Access", Data: d}, nil
}

var roles = []web.Option{
	{Value: "auditor", Label: "auditor: reads everything except payloads"},
	{Value: "operator", Label: "operator: runs sagas, letters and jobs"},
	{Value: "worker", Label: "worker: executes job runs"},
	{Value: "admin", Label: "admin: everything"},
}

func (p *pages) newKey(v *web.Visit) (*web.Action, error) {
	a := &web.Action{
		Label: "Create the key", Title: "New API key", Nav: "Access", Back: web.Link{Name: "API keys", URL: "/ui/access"},
		Class: web.Safe, Needs: accessAdmin, DryRun: web.DryRunInQuery,
		Means: "The key is shown only once, on the next page. Keys with the same name and tenant appear as one subject in the " +
			"audit trail, so you can replace a key with a new one.",
		Fields: []web.Field{
			{Name: "name", Label: "Name", Hint: "billing-service", Required: true},
			{Name: "role", Label: "Role", Kind: "select", Options: roles, Value: "auditor"},
			{Name: "expires_at", Label: "Expires at (empty: never)", Hint: v.Now.AddDate(1, 0, 0).UTC().Format(time.RFC3339)},
			{Name: "queues", Label: "Queues, one per line (worker role only; empty: all)", Kind: "lines"},
		},
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.CreateAPIKeyWithBody(ctx, &client.CreateAPIKeyParams{}, web.JSON, body, edit)
		},
		Result: func(answer []byte) (*web.Page, error) {
			var made client.CreatedAPIKey
			if err := json.Unmarshal(answer, &made); err != nil {
				return nil, err
			}
			return &web.Page{Template: "key-made", Title: "The new API key", Nav: "Access", Data: made}, nil
		},
	}
	if v.Who.AnyTenant {
		a.Fields = append(a.Fields, web.Field{
			Name: "any_tenant", Label: "For all tenants (admin role only)", Kind: "check",
		})
	}
	return a, nil
}

func (p *pages) revokeKey(v *web.Visit) (*web.Action, error) {
	id, err := v.ID("key")
	if err != nil {
		return nil, err
	}
	res, err := p.kit.Client.GetAPIKeyWithResponse(v.Context(), id)
	if err != nil {
		return nil, err
	}
	key, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	used := "It has never been used."
	if key.LastUsedAt != nil {
		used = "It was last used " + web.Ago(v.Now, *key.LastUsedAt) + "."
	}
	text := id.String()
	return &web.Action{
		Label: "Revoke", Title: "Revoke the API key " + key.Name, Nav: "Access",
		Back: web.Link{Name: "API keys", URL: "/ui/access"}, Class: web.Dangerous, Needs: accessAdmin,
		DryRun:  web.DryRunInQuery,
		Means:   used + " Every node rejects it within 5 seconds, and its sessions end.",
		Warning: "A revoked key cannot be restored. Anyone still using it gets 401.",
		Confirm: text[len(text)-6:], About: "the last six characters of the key's id",
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.RevokeAPIKeyWithBody(ctx, id, &client.RevokeAPIKeyParams{}, web.JSON, body, edit)
		},
		Done: func([]byte) string { return "/ui/access?active=false" },
	}, nil
}
