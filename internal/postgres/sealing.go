package postgres

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/skald-saga/skald/internal/secret/envelope"
)

// PassOver reports a failure to open sealed content to Config.Unreadable and returns nil; it
// returns any other error unchanged.
func (db *DB) PassOver(ctx context.Context, err error) error {
	if !errors.Is(err, envelope.ErrUnreadable) {
		return err
	}
	db.unreadable(ctx, err)
	return nil
}

// Unstorable is not JSON. It is stored in place of content that could not be read back, so that the
// database rejects such content, sealed or not.
var Unstorable = []byte("unstorable")

// Seal returns the stored form of the JSON v; nil for nil. It seals the canonical form, so that
// opened content need not be parsed again.
func Seal(p *envelope.Sealer, f envelope.Field, v []byte) ([]byte, error) {
	if v != nil && p.Seals() {
		plain, err := Canonical(v)
		if err != nil {
			return Unstorable, nil //nolint:nilerr // the database reports the error
		}
		v = plain
	}
	return p.Seal(f, v)
}

// Unseal returns the canonical JSON of stored content, sealed or not; nil for nil.
func Unseal(p *envelope.Sealer, f envelope.Field, stored []byte) (json.RawMessage, error) {
	v, err := Canonical(stored)
	if err != nil || v == nil {
		return nil, err
	}
	return p.Open(f, v)
}
