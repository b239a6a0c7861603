package rest

import (
	"context"
	"encoding/json"
	"net"
	"time"

	"github.com/skald-saga/skald/internal/audit/operator"
)

// Verbs of the record that several kinds of things have.
const (
	VerbCreate = "create"
	VerbUpdate = "update"
	VerbCancel = "cancel"
)

// ByOf is who asks, as the record of actions keeps it.
func ByOf(ctx context.Context, reason *string) operator.By {
	req := RequestOf(ctx)
	by := operator.By{Actor: req.Principal, Reason: Text(reason), RequestID: req.ID, Credential: req.Who.KeyID,
		Address: req.Remote, Operation: req.Operation}
	if host, _, err := net.SplitHostPort(req.Remote); err == nil {
		by.Address = host
	}
	return by
}

// WithActor returns ctx for stores that tell of their own changes.
func WithActor(ctx context.Context, reason *string) context.Context {
	return operator.As(ctx, ByOf(ctx, reason))
}

// Did is the action of the one who asks. The detail is what is to be kept of it
// beside the verb: nil, JSON, or members, which are few and hold no content.
func (k *Kit) Did(ctx context.Context, at time.Time, kind operator.Kind, subject, verb, reason string,
	detail any) operator.Action {
	var doc json.RawMessage
	switch d := detail.(type) {
	case json.RawMessage:
		doc = d
	case map[string]any:
		if d != nil {
			doc, _ = json.Marshal(d) // strings, numbers, booleans and times always encode
		}
	}
	return ByOf(ctx, &reason).Did(k.NewID(), RequestOf(ctx).Tenant.ID, at, kind, subject, verb, doc)
}
