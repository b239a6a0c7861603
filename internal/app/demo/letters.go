package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
)

// causes are the errors of the letters: twelve groups, of which three are large.
var causes = []struct{ topic, kind, message, class, target string }{
	{"payments", "java.net.SocketTimeoutException", "Timeout while calling the bank", "TRANSIENT", "bank/accept"},
	{"orders", "com.fasterxml.jackson.databind.JsonMappingException", "Cannot deserialize amount", "PERMANENT", "orders/accept"},
	{"shipments", "io.grpc.StatusRuntimeException", "UNAVAILABLE: carrier gateway", "TRANSIENT", "carrier/accept"},
	{"payments", "CardDeclined", "The issuer declined the card", "PERMANENT", "bank/accept"},
	{"orders", "ConstraintViolation", "Duplicate key in table order_lines", "PERMANENT", "orders/accept"},
	{"invoices", "TemplateError", "Missing field vat_id", "PERMANENT", "invoices/accept"},
	{"invoices", "java.io.IOException", "No space left on device", "TRANSIENT", "invoices/accept"},
	{"mail", "SMTPError", "Mailbox is full", "TRANSIENT", "mail/accept"},
	{"mail", "SMTPError", "Relay access denied", "PERMANENT", "mail/accept"},
	{"stock", "OptimisticLock", "Row was updated by another transaction", "TRANSIENT", "stock/accept"},
	{"stock", "AssertionError", "Negative quantity after reservation", "UNKNOWN", "stock/accept"},
	{"customers", "UnknownCustomer", "No customer with this number", "PERMANENT", "customers/accept"},
}

// fillLetters pushes letters, acts on some, and starts redrives.
func (f *filler) fillLetters(ctx context.Context) error {
	f.services.behave("invoices/accept", "down")
	policy := object{"auto_retry": false, "reason": "people decide here"}
	if err := f.call(ctx, "PATCH", "/dlq/policy", policy, nil); err != nil {
		return err
	}
	all := f.scaled(3000)
	for sent := 0; sent < all; {
		var batch []object
		for ; sent < all && len(batch) < 500; sent++ {
			batch = append(batch, f.letter(sent))
		}
		if err := f.billing.post(ctx, "/dlq/messages/batch", object{"messages": batch}); err != nil {
			return err
		}
	}
	if err := f.billing.post(ctx, "/dlq/messages", f.wrongAmount()); err != nil {
		return err
	}
	if err := f.groups(ctx); err != nil {
		return err
	}
	if err := f.letterStates(ctx); err != nil {
		return err
	}
	return f.redrives(ctx)
}

// Three out of four letters belong to one of the first three groups.
func (f *filler) letter(n int) object {
	cause := causes[n/4%len(causes)]
	if n%4 != 0 {
		cause = causes[n%3]
	}
	return object{
		"original_topic": cause.topic, "error_type": cause.kind, "error_message": cause.message, "error_class": cause.class,
		"payload": object{"order": 9007199254740993 + int64(n), "customer": fmt.Sprintf("c-%d", n%97), "amount": 59.90},
		"key":     fmt.Sprintf("c-%d", n%97), "consumer_group": cause.topic + "-service",
		"original_partition": n % 6, "original_offset": 100_000 + n, "correlation_id": fmt.Sprint(4700 + n%60),
		"headers":     []object{{"name": "trace", "value": "4bf92f35"}, {"name": "trace", "value": "00f067aa"}},
		"error_stack": cause.kind + ": " + cause.message + "\n\tat Consumer.handle(Consumer.java:42)",
		"target":      object{"kind": "http", "url": f.services.url + "/" + cause.target},
	}
}

// wrongAmount is a letter for people to correct. It is the refund of an order that has both a saga
// and a job run in the demo.
func (f *filler) wrongAmount() object {
	const why = "amount 599.00 exceeds the 59.90 that were paid for order-4711"
	return object{
		"original_topic": "refunds", "error_type": "AmountExceedsPayment", "error_message": why, "error_class": "PERMANENT",
		"payload": json.RawMessage(`{"refund": "R-2041", "order": "order-4711", "paid": 59.90, "amount": 599.00}`),
		"key":     "order-4711", "consumer_group": "refunds-service", "original_partition": 0, "original_offset": 2041,
		"correlation_id": "4711", "error_stack": "AmountExceedsPayment: " + why + "\n\tat Refunds.book(Refunds.java:88)",
		"target": object{"kind": "http", "url": f.services.url + "/refunds/book"},
	}
}

// groups changes the states of some groups.
func (f *filler) groups(ctx context.Context) error {
	var page struct {
		Groups []struct{ Fingerprint, Topic string }
	}
	if err := f.call(ctx, "GET", "/dlq/groups?page_size=50", nil, &page); err != nil {
		return err
	}
	for _, g := range page.Groups {
		change := object{"state": "ACKNOWLEDGED", "assignee": "kim", "note": "asked the owners of the topic"}
		if g.Topic == "customers" {
			change = object{"state": "RESOLVED", "reason": "the import has been repeated"}
		} else if g.Topic != "mail" {
			continue
		}
		if err := f.kim.call(ctx, "PATCH", "/dlq/groups/"+g.Fingerprint, change, nil); err != nil {
			return err
		}
	}
	return f.billing.post(ctx, "/dlq/messages", f.letter(44)) // a new letter reopens the group that was resolved
}

// letterStates acts on single letters.
func (f *filler) letterStates(ctx context.Context) error {
	var page struct{ Messages []struct{ ID string } }
	if err := f.call(ctx, "GET", "/dlq/messages?topic=stock&page_size=3", nil, &page); err != nil {
		return err
	}
	for i, action := range []string{"retry", "discard", "resolve"} {
		if i < len(page.Messages) {
			path := "/dlq/messages/" + page.Messages[i].ID + "/" + action
			if err := f.kim.post(ctx, path, object{"reason": "checked by hand"}); err != nil {
				return err
			}
		}
	}
	return nil
}

// redrives starts five redrives: one completes, one halts, one waits for approval, one runs slowly,
// and one is paused.
func (f *filler) redrives(ctx context.Context) error {
	for _, r := range []struct {
		topic, then string
		with        object
	}{
		{"mail", "", object{"rate_per_second": 500}},
		{"invoices", "", object{"rate_per_second": 100, "concurrency": 1, "stop_on": object{"failures": 2}}},
		{"customers", "", object{"approval_required": true, "max_messages": 100}},
		{"shipments", "", object{"rate_per_second": 0.5, "order": "per_key"}},
		{"payments", "pause", object{"rate_per_second": 0.1}},
	} {
		in := object{"action": "retry", "filter": object{"topic": r.topic}, "reason": r.topic + " works again"}
		for name, value := range r.with {
			in[name] = value
		}
		by := f.server
		if r.with["approval_required"] == true { // a second person must approve it
			by = f.kim
		}
		var made struct{ ID string }
		if err := by.call(ctx, "POST", "/dlq/redrives", in, &made); err != nil {
			return err
		}
		if r.then != "" {
			path := "/dlq/redrives/" + url.PathEscape(made.ID) + "/" + r.then
			if err := f.post(ctx, path, object{"reason": "until the stocktaking is over"}); err != nil {
				return err
			}
		}
	}
	return nil
}
