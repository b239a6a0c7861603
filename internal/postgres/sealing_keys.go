package postgres

import (
	"bytes"
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/secret/envelope"
)

// keyCheck is the prefix of the name under which the check value of a key is stored.
const keyCheck = "envelope:"

// AdmitKeys checks that Config.Encryption has every key that was ever used for sealing: a node
// that lacks one would take over sagas that it cannot read. Then it registers the key used from
// now on, so that nodes that start later can check it. Call it before anything is written.
func (db *DB) AdmitKeys(ctx context.Context) error {
	if err := db.admitKeys(ctx); err != nil || db.Keys == nil {
		return err
	}
	_, err := db.orderSecret(ctx)
	return err
}

func (db *DB) admitKeys(ctx context.Context) error {
	return db.InRead(ctx, func(tx *sqlx.Tx) error {
		// One node at a time: otherwise two with different keys would lock each other out.
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
		SELECT substr(name, length($1) + 1) AS id, value FROM saga.deployment_secrets WHERE starts_with(name, $1) ORDER BY name`, keyCheck)
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
