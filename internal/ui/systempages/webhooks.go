package systempages

import (
	"net/url"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// webhookList is the page that lists the webhooks.
type webhookList struct {
	*web.List
	Webhooks []webhookRow
	Create   []web.Button
	Curl     string
}

func (p *pages) webhooks(v *web.Visit) (*web.Page, error) {
	l, list, err := web.ListPage[client.WebhookList](v, nil, nil, p.kit.Client.ListWebhooks,
		"page_size", "100", "include", "total")
	if err != nil {
		return nil, err
	}
	d := webhookList{List: l}
	for _, w := range list.Webhooks {
		row := webhookRow{Webhook: w}
		if w.Pending != nil {
			row.Waiting = web.Count(*w.Pending, *w.Pending >= preparedAtMost)
		}
		d.Webhooks = append(d.Webhooks, row)
	}
	if !p.kit.ReadOnly {
		d.Create = []web.Button{v.Button("Create", "/ui/webhooks/new", webhookAdmin, meansCreate, web.Safe)}
	}
	d.Curl = web.Curl(v.Request, p.kit.Base, "POST", "/api/v1/webhooks",
		[]byte(`{"url": "https://example.org/hooks/skald", "event_types": ["saga.completed", "saga.failed"]}`))
	return &web.Page{Template: "webhooks", Title: "Webhooks", Nav: "Webhooks", Refresh: 10, Data: d}, nil
}

// webhookRow is a webhook in a list.
type webhookRow struct {
	client.Webhook
	Waiting string // number of waiting deliveries
}

// preparedAtMost is the number of deliveries that are prepared at a time. Further events wait in
// the audit trail and are not counted.
const preparedAtMost = 1000

// webhookPage shows one webhook with its deliveries.
type webhookPage struct {
	*web.List
	*client.Webhook
	Deliveries []client.Delivery
	Actions    []web.Button
	// Redelivered is the delivery that a redelivery has just made due; empty means none.
	Redelivered string
	More        bool // there are more
}

// Letters is the topic of the dead letters for abandoned deliveries.
func (d *webhookPage) Letters() string { return "webhook." + d.ID.String() }

var deliveryViews = []web.View{
	{Name: "All"},
	{Name: "Pending", Filter: url.Values{"status": {"pending"}}},
	{Name: "Delivered", Filter: url.Values{"status": {"delivered"}}},
	{Name: "Failed", Filter: url.Values{"status": {"failed"}}},
	{Name: "Discarded", Filter: url.Values{"status": {"discarded"}}},
}

func (p *pages) webhook(v *web.Visit) (*web.Page, error) {
	w, _, err := p.webhookOf(v)
	if err != nil {
		return nil, err
	}
	q := v.URL.Query()
	d := &webhookPage{Webhook: w, Redelivered: q.Get("redelivered"), More: q.Get("more") == "true"}
	q.Del("redelivered") // it is shown only once, and is not a parameter of the API
	q.Del("more")
	v.URL.RawQuery = q.Encode()
	l, list, err := web.ListPage[client.DeliveryList](v, deliveryViews, nil,
		web.Of(w.ID, p.kit.Client.ListWebhookDeliveries), "include", "total")
	if err != nil {
		return nil, err
	}
	d.List, d.Deliveries, d.Actions = l, list.Deliveries, p.webhookButtons(v, w)
	page := &web.Page{Template: "webhook", Title: w.URL, Nav: "Webhooks", Refresh: 5, Data: d}
	for i := range d.Deliveries {
		if d.Deliveries[i].Status == client.DeliveryStatusPending {
			page.Refresh = 2
		}
	}
	return page, nil
}

// deliveryPage shows one delivery, what was sent, and how the endpoint responded.
type deliveryPage struct {
	*client.Delivery
	URL     string // URL of the endpoint
	Actions []web.Button
	Now     time.Time
}

func (p *pages) delivery(v *web.Visit) (*web.Page, error) {
	w, _, err := p.webhookOf(v)
	if err != nil {
		return nil, err
	}
	id, err := v.ID("delivery")
	if err != nil {
		return nil, err
	}
	res, err := p.kit.Client.GetWebhookDeliveryWithResponse(v.Context(), w.ID, id)
	if err != nil {
		return nil, err
	}
	d := deliveryPage{URL: w.URL, Now: v.Now}
	if d.Delivery, err = web.Got(res.JSON200, res.ApplicationProblemJSONDefault); err != nil {
		return nil, err
	}
	if !p.kit.ReadOnly {
		d.Actions = []web.Button{v.Button("Redeliver", deliveryPath(w.ID, id)+"/redeliver", webhookAdmin,
			meansRedeliver, web.Safe)}
	}
	page := &web.Page{Template: "webhook-delivery", Title: d.EventType + " to " + w.URL, Nav: "Webhooks", Data: d}
	page.Refresh = 5
	if d.Status == client.DeliveryStatusPending {
		page.Refresh = 1
	}
	return page, nil
}

// filtersWords describes what a webhook receives: "all", or the names.
func filtersWords(names []string) string {
	if len(names) == 0 {
		return "all"
	}
	return strings.Join(names, ", ")
}

// Types describes the events that the webhook receives.
func (d *webhookPage) Types() string { return filtersWords(d.EventTypes) }

// Names describes the workflows whose events the webhook receives.
func (d *webhookPage) Names() string { return filtersWords(d.WorkflowNames) }

// registerWebhooks adds the pages of webhooks.
func (p *pages) registerWebhooks() {
	k, one := p.kit, "/ui/webhooks/{webhook}"
	k.Page("GET /ui/webhooks", p.webhooks)
	k.Action("/ui/webhooks/new", p.createWebhook)
	k.Page("GET "+one, p.webhook)
	k.Action(one+"/edit", p.editWebhook)
	k.Action(one+"/delete", p.deleteWebhook)
	k.Action(one+"/enable", p.enableWebhook)
	k.Action(one+"/disable", p.disableWebhook)
	k.Action(one+"/rotate-secret", p.rotateSecret)
	k.Action(one+"/test", p.testWebhook)
	k.Action(one+"/redeliver", p.redeliverSince)
	k.Page("GET "+one+"/deliveries/{delivery}", p.delivery)
	k.Action(one+"/deliveries/{delivery}/redeliver", p.redeliver)
}
