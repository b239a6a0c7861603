package memstore

import (
	"context"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/idempotency/claims"
)

// Answers implements claims.Store. A node that keeps everything in memory loses the
// effects with the keys, so it needs no transaction around both.
type Answers struct{ m *memory }

func answerID(k idempotency.Key) keyID { return keyID{k.TenantID, k.Principal, k.Route, k.Key} }

// Find implements claims.Store.
func (st *Answers) Find(_ context.Context, k idempotency.Key) (*idempotency.Kept, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	row, ok := st.m.answers[answerID(k)]
	if !ok {
		return nil, nil
	}
	a := row.answer
	return &idempotency.Kept{Hash: row.hash, Answer: &a, Age: st.m.now().Sub(row.createdAt)}, nil
}

// Keep implements claims.Store.
func (st *Answers) Keep(_ context.Context, c *claims.Claim, a idempotency.Answer) error {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	if row, ok := st.m.answers[answerID(c.Key)]; !ok || row.request == c.ID {
		st.m.answers[answerID(c.Key)] = answerRow{request: c.ID, hash: c.Hash, answer: a, createdAt: st.m.now()}
	}
	return nil
}

// Drop implements claims.Store.
func (st *Answers) Drop(_ context.Context, c *claims.Claim) error {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	if st.m.answers[answerID(c.Key)].request == c.ID && c.ID != uuid.Nil {
		delete(st.m.answers, answerID(c.Key))
	}
	return nil
}
