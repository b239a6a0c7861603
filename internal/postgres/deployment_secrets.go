package postgres

import (
	"bytes"
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

// orderSecret is the name of the deployment's secret that is used to digest the keys of ordered
// letters. It stays the same when master keys are rotated, and is wrapped with the current master
// key (decision 0053).
const orderSecret = "order"

// digestBytes is the length of a digest. If two keys had the same digest, their letters would
// merely wait for each other.
const digestBytes = 16

// KeyDigest returns a digest with which the database can compare the keys of a topic's letters
// without knowing them. It is nil without encryption, because the keys themselves can then be
// compared.
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

// orderSecret returns the secret for KeyDigest, and creates it if there is none.
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

// admitOrderSecret reads the secret or creates it. With encryption, a secret that was wrapped with
// an older key is wrapped again with the current key, so that the older key is no longer needed for
// it. The node that wrapped the secret registers its key.
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

// keyCheck is the prefix of the name under which the check value of a key is stored.
const keyCheck = "envelope:"

// AdmitKeys checks that Config.Encryption has every key that was ever used for sealing; a node that
// lacks a key would take over sagas that it cannot read. It then registers the key that is used
// from now on, so that nodes that start later can check it. Call it before anything is written.
func (db *DB) AdmitKeys(ctx context.Context) error {
	if err := db.admitKeys(ctx); err != nil || db.Keys == nil {
		return err
	}
	_, err := db.orderSecret(ctx)
	return err
}

func (db *DB) admitKeys(ctx context.Context) error {
	return db.InRead(ctx, func(tx *sqlx.Tx) error {
		// One node at a time; otherwise two nodes with different keys would lock each other out.
		if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtext($1))`, keyCheck); err != nil {
			return fmt.Errorf("read which encryption keys are in use: %w", err)
		}
		if err := db.knowAll(ctx, tx); err != nil {
			return err
		}
		id := db.Keys.Current()
		if id == "" {
			return nil
		}
		return registerKey(ctx, tx, db.Keys, id)
	})
}

// registerKey records that content is sealed with a key.
func registerKey(ctx context.Context, tx *sqlx.Tx, keys *envelope.Keyring, id string) error {
	check, _ := keys.Check(id)
	_, err := tx.ExecContext(ctx, `
		INSERT INTO saga.deployment_secrets (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING`, keyCheck+id, check)
	if err != nil {
		return fmt.Errorf("register the encryption key: %w", err)
	}
	return nil
}

// knowAll checks that the keyring contains every key that was ever used for sealing.
func (db *DB) knowAll(ctx context.Context, tx *sqlx.Tx) error {
	var used []struct {
		ID    string `db:"id"`
		Check []byte `db:"value"`
	}
	err := tx.SelectContext(ctx, &used, `
		SELECT substr(name, length($1) + 1) AS id, value
		  FROM saga.deployment_secrets
		 WHERE starts_with(name, $1)
		 ORDER BY name`, keyCheck)
	if err != nil {
		return fmt.Errorf("read which encryption keys are in use: %w", err)
	}
	for _, k := range used {
		switch check, ok := db.Keys.Check(k.ID); {
		case !ok:
			return fmt.Errorf("the database has content encrypted with key %s, which is missing from encryption.keys", k.ID)
		case !bytes.Equal(check, k.Check):
			return fmt.Errorf("the database has content encrypted with a key %s that differs from the one in encryption.keys", k.ID)
		}
	}
	return nil
}
