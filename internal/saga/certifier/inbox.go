package certifier

import (
	"context"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga/certify"
)

// inbox is a Receiver of an examination by a server, to any node of which the reports may go.
type inbox struct {
	certify.Inbox
	url   func(certify.Callback) string
	of    *certify.Certification
	token uuid.UUID
}

// Callback implements Receiver.
func (b *inbox) Callback(call string, undo, again bool) string {
	return b.url(certify.Callback{
		Tenant: b.of.TenantID, ID: b.of.ID, Token: b.token, Call: call, Undo: undo, Again: again,
	})
}

// First implements Receiver.
func (b *inbox) First(ctx context.Context, call string) (*certify.Told, error) {
	mail, err := b.Reports(ctx, b.of, b.token)
	if err != nil || mail[call].Report == nil {
		return nil, err
	}
	return new(certify.ReadTold(mail[call].Report)), nil
}
