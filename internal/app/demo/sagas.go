package demo

import (
	"context"
	"fmt"
	"strings"
)

// fillSagas starts sagas so that there is at least one in every state in which a saga can stay.
func (f *filler) fillSagas(ctx context.Context) error {
	for _, as := range [][2]string{
		{"stock/reserve", "flaky"}, {"orders/close", "refuse"}, {"stock/return", "down"}, {"carrier/slot", "slow"},
		{"charges/reverse", "refuse"}, {"depot/release", "down"}, {"depot/collect", "tidal"}, {"refunds/book", "strict"},
	} {
		f.services.behave(as[0], as[1])
	}
	if err := f.register(ctx); err != nil {
		return err
	}
	for n := range f.scaled(60) {
		if n == 24 { // sagas that have already started keep version 1
			if err := f.workflow(ctx, orderWithInvoice); err != nil {
				return err
			}
		}
		if err := f.order(ctx, n); err != nil {
			return err
		}
	}
	for n := range 4 {
		stranded := object{
			"workflow_name": "late-order", "business_key": fmt.Sprintf("late-%d", n), "name": fmt.Sprintf("Order %d", 4711+n),
			"payload": object{"sku": "lamp", "order": 9007199254740993}, "initiated_by": "shop-api",
		}
		if err := f.shop.post(ctx, "/sagas", stranded); err != nil {
			return err
		}
	}
	for n := range 8 {
		refund := object{"workflow_name": "refund", "business_key": fmt.Sprintf("refund-%d", n),
			"payload": object{"charge": n}}
		if err := f.shop.post(ctx, "/sagas", refund); err != nil {
			return err
		}
	}
	for n := range 3 {
		if err := f.parcel(ctx, n); err != nil {
			return err
		}
	}
	if err := f.shipments(ctx); err != nil {
		return err
	}
	// Once the late orders are FAILED, their compensation has exhausted its retries. From then on
	// it would succeed, so that a person can retry it.
	if err := f.rest(ctx, "late-order", "failed", 4); err != nil {
		return err
	}
	f.services.behave("stock/return", "ok")
	return f.rest(ctx, "overdue", "timed_out", 1)
}

// shipments starts sagas in which an operator has intervened, or needs to.
func (f *filler) shipments(ctx context.Context) error {
	for n, action := range []string{"", "suspend", "cancel", "compensate"} {
		var made struct {
			SagaID string `json:"saga_id"`
		}
		saga := object{"workflow_name": "shipment", "business_key": fmt.Sprintf("shipment-%d", n),
			"payload": object{"parcels": n + 1}}
		if action == "cancel" {
			saga["workflow_name"] = "visit"
		}
		if err := f.shop.call(ctx, "POST", "/sagas", saga, &made); err != nil {
			return err
		}
		if action == "" {
			continue
		}
		if err := f.kim.post(ctx, "/sagas/"+made.SagaID+"/"+action, object{"reason": "the customer called"}); err != nil {
			return err
		}
	}
	overdue := object{"workflow_name": "overdue", "payload": object{}, "timeout_ms": 1500}
	if err := f.shop.post(ctx, "/sagas", overdue); err != nil {
		return err
	}
	return f.shop.post(ctx, "/sagas", object{"workflow_name": "depot-move", "business_key": "move-1", "payload": object{}})
}

// order starts an order that will succeed, but not at the first attempt.
func (f *filler) order(ctx context.Context, n int) error {
	correlation := fmt.Sprint(4700 + n)
	return f.shop.post(ctx, "/sagas", object{
		"workflow_name": "order", "business_key": "order-" + correlation, "correlation_id": correlation,
		"payload":  object{"sku": "lamp", "quantity": 2, "amount": 59.90, "order": 9007199254740993},
		"metadata": object{"region": []string{"eu", "us"}[n%2]}, "initiated_by": "shop-api",
	})
}

// paid sends the event that an order is paid, which starts a run.
func (f *filler) paid(ctx context.Context, n int) error {
	correlation := fmt.Sprint(4700 + n)
	return f.shop.post(ctx, "/events", object{
		"event_type": "order.paid", "correlation_id": correlation, "payload": object{"order": "order-" + correlation},
	})
}

// parcel starts a saga that waits until the depot is back up.
func (f *filler) parcel(ctx context.Context, n int) error {
	return f.shop.post(ctx, "/sagas", object{
		"workflow_name": "parcel", "business_key": fmt.Sprintf("parcel-%d", n), "correlation_id": fmt.Sprint(4700 + n),
		"payload": object{"order": fmt.Sprintf("order-%d", 4700+n), "weight": 1.25},
	})
}

// rest waits until enough sagas of a workflow have reached a state.
func (f *filler) rest(ctx context.Context, workflow, state string, enough int) error {
	return until(ctx, workflow+" "+state, func() (bool, error) {
		var page struct{ Sagas []struct{} }
		err := f.call(ctx, "GET", "/sagas?workflow_name="+workflow+"&state="+state, nil, &page)
		return len(page.Sagas) >= enough, err
	})
}

// workflow is a workflow of the demo. A step is written as its name, its action, and its compensation, if any.
type workflow struct {
	name    string
	retry   object
	timeout int // timeout of a call, in milliseconds
	steps   []string
}

var (
	quick   = object{"max_attempts": 4, "initial_interval_ms": 100, "max_interval_ms": 2000, "multiplier": 4}
	patient = object{"max_attempts": 100, "initial_interval_ms": 5000, "max_interval_ms": 60000, "multiplier": 2}
	steady  = object{"max_attempts": 100, "initial_interval_ms": 3000, "max_interval_ms": 3000}
)

// workflows are the workflows that the demo registers at the beginning.
var workflows = []workflow{
	{"order", quick, 120_000, []string{"reserve-stock stock/reserve stock/release", "charge-payment charges/create charges/refund",
		"confirm-order orders/confirm orders/cancel", "notify mail/send"}},
	{"late-order", quick, 120_000, []string{"reserve-stock stock/reserve stock/return", "charge-payment charges/create charges/refund",
		"close-order orders/close orders/open", "notify mail/send"}},
	{"refund", quick, 120_000, []string{"find-charge charges/find", "reverse-charge charges/reverse charges/create"}},
	{"shipment", quick, 120_000, []string{"book-carrier carrier/book carrier/cancel", "wait-for-slot carrier/slot",
		"hand-over carrier/load"}},
	{"visit", quick, 500, []string{"wait-for-slot carrier/slot", "hand-over carrier/load"}},
	{"overdue", quick, 500, []string{"book-carrier carrier/book carrier/cancel", "wait-for-slot carrier/slot"}},
	{"depot-move", patient, 120_000, []string{"pick depot/pick depot/release", "close orders/close orders/open"}},
	{"parcel", steady, 120_000, []string{"pack stock/pack stock/unpack", "collect depot/collect depot/bring-back", "notify mail/send"}},
}

// orderWithInvoice is the second version of order: it adds an invoice and retries the charge more often.
var orderWithInvoice = workflow{"order", steady, 120_000, []string{
	"reserve-stock stock/reserve stock/release", "charge-payment charges/create charges/refund",
	"write-invoice invoices/write invoices/void", "confirm-order orders/confirm orders/cancel", "notify mail/send",
}}

// register registers the workflows that exist at the beginning of the demo.
func (f *filler) register(ctx context.Context) error {
	for _, w := range workflows {
		if err := f.workflow(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// workflow registers a workflow or its next version.
func (f *filler) workflow(ctx context.Context, w workflow) error {
	var steps []object
	for _, line := range w.steps {
		part := strings.Fields(line)
		step := object{
			"name": part[0], "action": f.calls(part[1]), "compensation": "none", "timeout_ms": w.timeout,
		}
		if len(part) > 2 {
			step["compensation"] = f.calls(part[2])
		}
		steps = append(steps, step)
	}
	return f.post(ctx, "/workflows", object{
		"name": w.name, "steps": steps, "retry": w.retry, "compensation_retry": w.retry,
	})
}

func (f *filler) calls(operation string) object {
	return object{"http": object{"url": f.services.url + "/" + operation}}
}
