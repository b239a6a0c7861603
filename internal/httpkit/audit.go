package httpkit

import (
	"context"
	"encoding/json"
	"net"
	"time"

	"github.com/skald-saga/skald/internal/audit/operator"
)

// Verbs of recorded actions that several kinds of subjects share.
const (
	VerbCreate = "create"
	VerbUpdate = "update"
	VerbCancel = "cancel"
)

// ByOf returns who makes the request, as recorded with actions.
func ByOf(ctx context.Context, reason *string) operator.By {
	req := RequestOf(ctx)
	by := operator.By{Actor: req.Principal, ActorName: req.Who.Name, Reason: Text(reason), RequestID: req.ID,
		Credential: req.Who.KeyID, Address: req.Remote, Operation: req.Operation}
	if host, _, err := net.SplitHostPort(req.Remote); err == nil {
		by.Address = host
	}
	return by
}

// WithActor returns ctx for stores that record their own changes.
func WithActor(ctx context.Context, reason *string) context.Context {
	return operator.As(ctx, ByOf(ctx, reason))
}

// Did returns the record of an action by the caller of the request. detail is what is
// recorded in addition to the verb: nil, JSON, or members, which are few and have no content
// of sagas.
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
