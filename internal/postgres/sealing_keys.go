package postgres

import (
	"bytes"
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
)

// keyCheck begins the name under which a key is known again.
const keyCheck = "envelope:"

// AdmitKeys checks that every key that ever sealed is among Config.Encryption:
// a node without one of them would take sagas over and could not read them.
// Then it makes known which key seals from now on, for the nodes that start
// later. Call it before anything is written.
func (db *DB) AdmitKeys(ctx context.Context) error {
	return db.InRead(ctx, func(tx *sqlx.Tx) error {
		// One node after the other, or two with different keys would shut each other out.
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
		check, _ := db.Keys.Check(id)
		_, err := tx.ExecContext(ctx, `
			INSERT INTO saga.deployment_secrets (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING`, keyCheck+id, check)
		if err != nil {
			return fmt.Errorf("register the encryption key: %w", err)
		}
		return nil
	})
}

// knowAll checks that every key that ever sealed is there.
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
			return fmt.Errorf("the database has content encrypted with a different key %s than the one in encryption.keys", k.ID)
		}
	}
	return nil
}
