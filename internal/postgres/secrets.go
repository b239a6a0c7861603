package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
)

// Secret returns the deployment's secret of that name: 32 random bytes, made
// by the first node that asks and the same for all nodes ever after.
func (db *DB) Secret(ctx context.Context, name string) ([]byte, error) {
	value := make([]byte, 32)
	if _, err := rand.Read(value); err != nil {
		return nil, err
	}
	if _, err := db.Read.ExecContext(ctx, `
		INSERT INTO saga.deployment_secrets (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING`, name, value); err != nil {
		return nil, fmt.Errorf("store secret: %w", err)
	}
	err := db.Read.GetContext(ctx, &value, `SELECT value FROM saga.deployment_secrets WHERE name = $1`, name)
	if err != nil {
		return nil, fmt.Errorf("read secret: %w", err)
	}
	return value, nil
}
