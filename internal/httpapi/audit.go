package httpapi

import (
	"context"
	"encoding/json"
	"net"
	"time"

	"github.com/skald-saga/skald/internal/audit/operator"
)

// Verbs of the record that several kinds of things have.
const (
	verbCreate = "create"
	verbUpdate = "update"
	verbCancel = "cancel"
)

// byOf is who asks, as the record of actions keeps it.
func byOf(ctx context.Context, reason *string) operator.By {
	req := requestOf(ctx)
	by := operator.By{Actor: req.principal, Reason: text(reason), RequestID: req.id, Credential: req.who.KeyID, Address: req.remote, Operation: req.operation}
	if host, _, err := net.SplitHostPort(req.remote); err == nil {
		by.Address = host
	}
	return by
}

// acting returns ctx for stores that tell of their own changes.
func acting(ctx context.Context, reason *string) context.Context {
	return operator.As(ctx, byOf(ctx, reason))
}

// did is the action of the one who asks. The detail is what is to be kept of it
// beside the verb: nil, JSON, or members, which are few and hold no content.
func (k *Kit) did(ctx context.Context, at time.Time, kind operator.Kind, subject, verb, reason string, detail any) operator.Action {
	var doc json.RawMessage
	switch d := detail.(type) {
	case json.RawMessage:
		doc = d
	case map[string]any:
		if d != nil {
			doc, _ = json.Marshal(d) // strings, numbers, booleans and times always encode
		}
	}
	return byOf(ctx, &reason).Did(k.NewID(), requestOf(ctx).tenant.ID, at, kind, subject, verb, doc)
}
