package postgres

import (
	"bytes"
	"context"
	"fmt"
)

// keyCheck begins the name under which a key is known again.
const keyCheck = "envelope:"

// AdmitKeys makes known which key seals from now on, and checks that every key
// that ever did is among Config.Encryption: a node without one of them would
// take sagas over and could not read them. Call it before anything is written.
func (db *DB) AdmitKeys(ctx context.Context) error {
	if id := db.keys.Current(); id != "" {
		check, _ := db.keys.Check(id)
		if _, err := db.read.ExecContext(ctx, `
			INSERT INTO saga.deployment_secrets (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING`, keyCheck+id, check); err != nil {
			return fmt.Errorf("make the encryption key known: %w", err)
		}
	}
	var known []struct {
		ID    string `db:"id"`
		Check []byte `db:"value"`
	}
	err := db.read.SelectContext(ctx, &known, `
		SELECT substr(name, length($1) + 1) AS id, value FROM saga.deployment_secrets WHERE starts_with(name, $1) ORDER BY name`, keyCheck)
	if err != nil {
		return fmt.Errorf("read which encryption keys are in use: %w", err)
	}
	for _, k := range known {
		switch check, ok := db.keys.Check(k.ID); {
		case !ok:
			return fmt.Errorf("the database has content that is sealed with the key %s, which encryption.keys does not have", k.ID)
		case !bytes.Equal(check, k.Check):
			return fmt.Errorf("the database has content that is sealed with another key %s than encryption.keys has", k.ID)
		}
	}
	return nil
}
