package accesspages

import (
	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// tenantList lets an administrator of all tenants select a single tenant to view.
type tenantList struct {
	*web.List
	*client.TenantList
	Current string
}

func (p *pages) tenants(v *web.Visit) (*web.Page, error) {
	l, list, err := web.ListPage[client.TenantList](v, nil, nil, p.kit.Client.ListTenants)
	if err != nil {
		return nil, err
	}
	d := tenantList{List: l, TenantList: list, Current: v.Who.TenantID.String()}
	return &web.Page{Template: "tenants", Title: "Tenants", Data: d}, nil
}
