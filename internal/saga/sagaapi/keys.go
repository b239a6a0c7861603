package sagaapi

import (
	"context"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/saga"
)

// prior looks up an Idempotency-Key. known: it was used by the same request, whose saga
// is id. Fault: Invalid with idempotency.CodeUsed when it was used by another request.
func (s *Handlers) prior(ctx context.Context, key *idempotency.Key) (id uuid.UUID, known bool, err error) {
	state, id, err := s.Store.Key(ctx, *key)
	switch {
	case err != nil:
		return uuid.Nil, false, err
	case state == saga.KeyOther:
		return uuid.Nil, false, idempotency.Used()
	}
	return id, state == saga.KeySame, nil
}
