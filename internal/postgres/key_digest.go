package postgres

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/secret/envelope"
)

// orderSecret is the name of the deployment's secret under which the keys of ordered
// letters are digested. It stays the same when master keys are rotated and is wrapped
// with the one that is current (decision 0053).
const orderSecret = "order"

// digestBytes is the length of a digest. Letters of two keys with the same digest would only
// wait for each other.
const digestBytes = 16

// KeyDigest returns a digest by which the database can compare the keys of letters of a topic
// without knowing them. It is nil without encryption: the keys themselves can be compared then.
func (db *DB) KeyDigest(ctx context.Context, tenant uuid.UUID, topic string, key []byte) ([]byte, error) {
	if db.Keys == nil || key == nil {
		return nil, nil
	}
	secret, err := db.orderSecret(ctx)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write(binary.BigEndian.AppendUint64(tenant[:], uint64(len(topic))))
	mac.Write([]byte(topic))
	mac.Write(key)
	return mac.Sum(nil)[:digestBytes], nil
}

// orderSecret returns the secret of KeyDigest, and makes it if there is none.
func (db *DB) orderSecret(ctx context.Context) ([]byte, error) {
	db.ordering.Lock()
	defer db.ordering.Unlock()
	if db.order != nil {
		return db.order, nil
	}
	err := db.InRead(ctx, func(tx *sqlx.Tx) (err error) {
		db.order, err = admitOrderSecret(ctx, tx, db.Keys)
		return err
	})
	if err != nil {
		db.order = nil // it may not be committed
		return nil, fmt.Errorf("read the secret for ordered dead letters: %w", err)
	}
	return db.order, nil
}

// admitOrderSecret reads the secret, or makes it. With encryption, a secret that an older key
// wrapped is wrapped again with the current one, so that the older key is no longer needed for
// it. The node that wrapped it registers its key.
func admitOrderSecret(ctx context.Context, tx *sqlx.Tx, keys *envelope.Keyring) (secret []byte, err error) {
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtext($1))`, keyCheck); err != nil {
		return nil, err
	}
	var stored []byte
	err = tx.GetContext(ctx, &stored, `SELECT value FROM saga.deployment_secrets WHERE name = $1`, orderSecret)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		secret = make([]byte, sha256.Size)
		if _, err := rand.Read(secret); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	default:
		if secret, err = keys.Unwrap(orderSecret, stored); err != nil {
			return nil, err
		}
		if !keys.Seals() || envelope.KeyOf(stored) == keys.Current() {
			return secret, nil
		}
	}
	if stored, err = keys.Wrap(orderSecret, secret); err != nil {
		return nil, err
	}
	if _, err = tx.ExecContext(ctx, `INSERT INTO saga.deployment_secrets (name, value) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value`, orderSecret, stored); err != nil {
		return nil, err
	}
	return secret, registerKey(ctx, tx, keys, keys.First())
}
