package player

import (
	"context"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga/certification"
)

// inbox is the Receiver of a test that a server runs. Reports may go to any of its nodes.
type inbox struct {
	certification.Inbox
	url   func(certification.Callback) string
	of    *certification.Certification
	token uuid.UUID
}

// Callback implements Receiver.
func (b *inbox) Callback(call string, undo, again bool) string {
	return b.url(certification.Callback{
		Tenant: b.of.TenantID, ID: b.of.ID, Token: b.token, Call: call, Undo: undo, Again: again,
	})
}

// First implements Receiver.
func (b *inbox) First(ctx context.Context, call string) (*certification.Told, error) {
	mail, err := b.Reports(ctx, b.of, b.token)
	if err != nil || mail[call].Report == nil {
		return nil, err
	}
	return new(certification.ReadTold(mail[call].Report)), nil
}
