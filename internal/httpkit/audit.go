package httpkit

import (
	"context"
	"encoding/json"
	"net"
	"time"

	"github.com/skald-saga/skald/internal/audit/operator"
)

// Verbs of recorded actions that several kinds of objects share.
const (
	VerbCreate = "create"
	VerbUpdate = "update"
	VerbCancel = "cancel"
)

// ByOf returns the caller of the request, in the form in which actions record it.
func ByOf(ctx context.Context, reason *string) operator.By {
	req := RequestOf(ctx)
	by := operator.By{Actor: req.Principal, ActorName: req.Who.Name, Reason: Text(reason), RequestID: req.ID,
		Credential: req.Who.KeyID, Address: req.Remote, Operation: req.Operation}
	if host, _, err := net.SplitHostPort(req.Remote); err == nil {
		by.Address = host
	}
	return by
}

// WithActor returns ctx with the caller, for stores that record their own changes.
func WithActor(ctx context.Context, reason *string) context.Context {
	return operator.As(ctx, ByOf(ctx, reason))
}

// Did returns the record of an action by the caller of the request. detail is recorded in addition
// to the verb. It is nil, JSON, or a few members, and has no saga content.
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
