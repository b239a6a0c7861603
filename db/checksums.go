package db

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/lib/pq"
)

// Checksums of the applied migrations are stored beside their record, to detect files changed after
// they were applied: the schema then differs from the files.
const (
	makeChecksums = `
CREATE TABLE IF NOT EXISTS skald.schema_checksums (
    id     text PRIMARY KEY, -- as in skald.schema_migrations
    sha256 text NOT NULL     -- of the file, as it was when it was applied
)`
	// A migration applied before checksums were introduced gets the checksum of this binary's file.
	addChecksums = `
INSERT INTO skald.schema_checksums (id, sha256)
SELECT f.id, f.sha256
  FROM unnest($1::text[], $2::text[]) AS f (id, sha256)
  JOIN skald.schema_migrations m ON m.id = f.id
    ON CONFLICT (id) DO NOTHING`
	// A reverted migration may return in another form.
	dropChecksums = `
DELETE FROM skald.schema_checksums c WHERE NOT EXISTS (SELECT FROM skald.schema_migrations m WHERE m.id = c.id)`
	allChecksums = `SELECT id, sha256 FROM skald.schema_checksums ORDER BY id`
)

// Changed is the error for migrations whose files were changed after they were applied.
type Changed struct{ IDs []string }

func (e *Changed) Error() string {
	return fmt.Sprintf("these migrations were changed after this database applied them: %s; "+
		"the schema may differ from what this binary expects: run the release that was built from the original files",
		strings.Join(e.IDs, ", "))
}

// checksums returns the checksum of each migration file of this binary.
func checksums() (map[string]string, error) {
	entries, err := files.ReadDir("migrations")
	if err != nil {
		return nil, err
	}
	sums := make(map[string]string, len(entries))
	for _, e := range entries {
		text, err := files.ReadFile("migrations/" + e.Name())
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(text)
		sums[e.Name()] = hex.EncodeToString(sum[:])
	}
	return sums, nil
}

// keepChecksums stores the checksums of applied migrations, and deletes those of reverted ones.
func keepChecksums(ctx context.Context, db *sql.DB) error {
	sums, err := checksums()
	if err != nil {
		return err
	}
	var ids, values []string
	for id, sum := range sums {
		ids, values = append(ids, id), append(values, sum)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	for _, s := range []string{makeChecksums, readable("schema_checksums"), dropChecksums} {
		if _, err := tx.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("store the checksums of migrations: %w", err)
		}
	}
	if _, err := tx.ExecContext(ctx, addChecksums, pq.Array(ids), pq.Array(values)); err != nil {
		return fmt.Errorf("store the checksums of migrations: %w", err)
	}
	return tx.Commit()
}

// Unchanged returns a *Changed if the file of an applied migration has changed. A database whose
// last migration predates checksums has none.
func Unchanged(ctx context.Context, db Reader) error {
	sums, err := checksums()
	if err != nil {
		return err
	}
	rows, err := db.QueryContext(ctx, allChecksums)
	switch {
	case absent(err):
		return nil
	case err != nil:
		return err
	}
	defer rows.Close()
	var changed []string
	for rows.Next() {
		var id, sum string
		if err := rows.Scan(&id, &sum); err != nil {
			return err
		}
		if now, known := sums[id]; known && now != sum {
			changed = append(changed, id)
		}
	}
	if err := rows.Err(); err != nil || changed == nil {
		return err
	}
	slices.Sort(changed)
	return &Changed{changed}
}
