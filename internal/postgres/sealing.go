package postgres

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/skald-saga/skald/internal/secret/envelope"
)

// passOver tells of content that does not open and returns nil; any other error
// is returned as it is.
func (db *DB) passOver(ctx context.Context, err error) error {
	if !errors.Is(err, envelope.ErrUnreadable) {
		return err
	}
	db.unreadable(ctx, err)
	return nil
}

// unstorable is no JSON. It stands for what could not be read back, so that the
// database refuses it sealed as it would refuse it plain.
var unstorable = []byte("unstorable")

// seal returns what to store for the JSON v, nil for nil. What is sealed is
// canonical, so that what is opened need not be parsed again.
func seal(p *envelope.Sealer, f envelope.Field, v []byte) ([]byte, error) {
	if v != nil && p.Seals() {
		plain, err := canonical(v)
		if err != nil {
			return unstorable, nil //nolint:nilerr // the database says it
		}
		v = plain
	}
	return p.Seal(f, v)
}

// opened returns the canonical JSON that a jsonb stands for; nil stays nil.
func opened(p *envelope.Sealer, f envelope.Field, stored []byte) (json.RawMessage, error) {
	v, err := canonical(stored)
	if err != nil || v == nil {
		return nil, err
	}
	return p.Open(f, v)
}

// sealed writes v sealed, NULL when nil.
func (c *column) sealed(p *envelope.Sealer, f envelope.Field, v []byte) error {
	v, err := seal(p, f, v)
	c.json(v)
	return err
}
