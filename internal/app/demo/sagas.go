package demo

import (
	"context"
	"fmt"
	"strings"
)

// fillSagas starts sagas and brings at least one into every state in which a saga can stay.
func (f *filler) fillSagas(ctx context.Context) error {
	for _, as := range [][2]string{
		{"stock/reserve", "flaky"}, {"orders/close", "refuse"}, {"stock/return", "down"}, {"carrier/slot", "slow"},
		{"charges/reverse", "refuse"}, {"depot/release", "down"},
	} {
		f.services.behave(as[0], as[1])
	}
	if err := f.register(ctx); err != nil {
		return err
	}
	for n := range f.scaled(60) {
		if err := f.order(ctx, n); err != nil {
			return err
		}
	}
	for n := range 4 {
		stranded := object{
			"workflow_name": "late-order", "business_key": fmt.Sprintf("late-%d", n), "name": fmt.Sprintf("Order %d", 4711+n),
			"payload": object{"sku": "lamp", "order": 9007199254740993}, "initiated_by": "shop-api",
		}
		if err := f.post(ctx, "/sagas", stranded); err != nil {
			return err
		}
	}
	for n := range 8 {
		refund := object{"workflow_name": "refund", "business_key": fmt.Sprintf("refund-%d", n),
			"payload": object{"charge": n}}
		if err := f.post(ctx, "/sagas", refund); err != nil {
			return err
		}
	}
	if err := f.shipments(ctx); err != nil {
		return err
	}
	// The compensation of the late orders has exhausted its retries once they are FAILED. From then
	// on it would succeed, so that a person can retry it.
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
		if err := f.call(ctx, "POST", "/sagas", saga, &made); err != nil {
			return err
		}
		if action == "" {
			continue
		}
		if err := f.post(ctx, "/sagas/"+made.SagaID+"/"+action, object{"reason": "the customer called"}); err != nil {
			return err
		}
	}
	overdue := object{"workflow_name": "overdue", "payload": object{}, "timeout_ms": 1500}
	if err := f.post(ctx, "/sagas", overdue); err != nil {
		return err
	}
	return f.post(ctx, "/sagas", object{"workflow_name": "depot-move", "business_key": "move-1", "payload": object{}})
}

// order starts an order that will succeed, but not at the first attempt.
func (f *filler) order(ctx context.Context, n int) error {
	return f.post(ctx, "/sagas", object{
		"workflow_name": "order", "business_key": fmt.Sprintf("order-%d", 4700+n), "correlation_id": fmt.Sprint(4700 + n),
		"payload":  object{"sku": "lamp", "quantity": 2, "amount": 59.90, "order": 9007199254740993},
		"metadata": object{"region": []string{"eu", "us"}[n%2]}, "initiated_by": "shop-api",
	})
}

// rest waits until enough sagas of a workflow are in a state.
func (f *filler) rest(ctx context.Context, workflow, state string, enough int) error {
	return until(ctx, workflow+" "+state, func() (bool, error) {
		var page struct{ Sagas []struct{} }
		err := f.call(ctx, "GET", "/sagas?workflow_name="+workflow+"&state="+state, nil, &page)
		return len(page.Sagas) >= enough, err
	})
}

// register registers the workflows. A step is written as its name, its action, and its
// compensation, if any.
func (f *filler) register(ctx context.Context) error {
	quick := object{"max_attempts": 4, "initial_interval_ms": 100, "max_interval_ms": 2000, "multiplier": 4}
	patient := object{"max_attempts": 100, "initial_interval_ms": 5000, "max_interval_ms": 60000, "multiplier": 2}
	for _, w := range []struct {
		name    string
		retry   object
		timeout int // of a call, in milliseconds
		steps   []string
	}{
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
	} {
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
		if err := f.post(ctx, "/workflows", object{
			"name": w.name, "steps": steps, "retry": w.retry, "compensation_retry": w.retry,
		}); err != nil {
			return err
		}
	}
	return nil
}

func (f *filler) calls(operation string) object {
	return object{"http": object{"url": f.services.url + "/" + operation}}
}
