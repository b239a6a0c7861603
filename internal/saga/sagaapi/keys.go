package sagaapi

import (
	"context"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/saga"
)

// prior looks up an Idempotency-Key. known: it was used by the same request, whose saga
// is id. Fault: Invalid with CodeKeyUsed when it was used by another request.
func (s *Handlers) prior(ctx context.Context, key *saga.IdempotencyKey) (id uuid.UUID, known bool, err error) {
	state, id, err := s.Store.Key(ctx, *key)
	switch {
	case err != nil:
		return uuid.Nil, false, err
	case state == saga.KeyOther:
		return uuid.Nil, false, httpkit.KeyReused()
	}
	return id, state == saga.KeySame, nil
}
