package postgres

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/skald-saga/skald/internal/secret/envelope"
)

// PassOver tells of content that does not open and returns nil; any other error
// is returned as it is.
func (db *DB) PassOver(ctx context.Context, err error) error {
	if !errors.Is(err, envelope.ErrUnreadable) {
		return err
	}
	db.unreadable(ctx, err)
	return nil
}

// Unstorable is no JSON. It stands for what could not be read back, so that the
// database refuses it sealed as it would refuse it plain.
var Unstorable = []byte("unstorable")

// Seal returns what to store for the JSON v, nil for nil. What is sealed is
// canonical, so that what is opened need not be parsed again.
func Seal(p *envelope.Sealer, f envelope.Field, v []byte) ([]byte, error) {
	if v != nil && p.Seals() {
		plain, err := Canonical(v)
		if err != nil {
			return Unstorable, nil //nolint:nilerr // the database says it
		}
		v = plain
	}
	return p.Seal(f, v)
}

// Unseal returns the canonical JSON that a jsonb stands for; nil stays nil.
func Unseal(p *envelope.Sealer, f envelope.Field, stored []byte) (json.RawMessage, error) {
	v, err := Canonical(stored)
	if err != nil || v == nil {
		return nil, err
	}
	return p.Open(f, v)
}
