package accesspages

import (
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// tenantList lets an administrator of all tenants look at one of them.
type tenantList struct {
	*web.List
	Tenants []client.TenantActivity
	Current string
	Now     time.Time
}

func (p *pages) tenants(v *web.Visit) (*web.Page, error) {
	d := tenantList{List: v.NewList(nil, nil), Current: v.Who.TenantID.String(), Now: v.Now}
	res, err := p.kit.Client.ListTenantsWithResponse(v.Context(), &client.ListTenantsParams{},
		web.AsQuery(d.Sent(v.Now, "page_size", "50")))
	if err != nil {
		return nil, err
	}
	list, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	d.Tenants = list.Tenants
	d.Paged(list.Pagination)
	return &web.Page{Template: "tenants", Title: "Tenants", Data: d}, nil
}
