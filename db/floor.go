package db

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
)

// Nodes are replaced one by one, and a rollback brings the older program back: in both cases, it
// runs on a schema that a newer program has migrated. It can do so unless a migration removed
// something that it uses. Such a migration says so on a line of its own: `-- contract: what it
// removes`. The database stores the number of the newest such applied migration, its floor, for
// programs that do not know that migration.

// unreleased is the newest migration before the first release: no earlier program is in use.
const unreleased = 455

const contracts = "-- contract: "

const (
	makeFloor = `
CREATE TABLE IF NOT EXISTS skald.schema_floor (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    version integer NOT NULL -- programs whose newest migration has a smaller number cannot use this schema
)`
	setFloor = `
INSERT INTO skald.schema_floor (version) VALUES ($1)
    ON CONFLICT (one) DO UPDATE SET version = EXCLUDED.version WHERE schema_floor.version <> EXCLUDED.version`
	getFloor = `SELECT version FROM skald.schema_floor`
)

// numberOf returns the number with which the name of a migration begins, or 0 if it has none.
func numberOf(id string) int {
	text, _, _ := strings.Cut(id, "_")
	n, _ := strconv.Atoi(text)
	return n
}

// floorOf returns the floor of a schema with these migrations, as far as this binary knows them.
func floorOf(status []Applied) (int, error) {
	floor := unreleased
	for _, m := range status {
		number := numberOf(m.ID)
		if m.At.IsZero() || m.Unknown || number <= floor {
			continue
		}
		text, err := files.ReadFile("migrations/" + m.ID)
		if err != nil {
			return 0, err
		}
		if bytes.Contains(text, []byte("\n"+contracts)) {
			floor = number
		}
	}
	return floor, nil
}

// keepFloor stores the floor of the schema after migrations were applied or reverted.
func keepFloor(ctx context.Context, db *sql.DB) error {
	status, err := Status(ctx, db)
	if err != nil {
		return err
	}
	floor, err := floorOf(status)
	if err != nil {
		return err
	}
	for _, s := range []string{makeFloor, readable("schema_floor")} {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("store which programs may use the schema: %w", err)
		}
	}
	if _, err := db.ExecContext(ctx, setFloor, floor); err != nil {
		return fmt.Errorf("store which programs may use the schema: %w", err)
	}
	return nil
}

// Floor returns the number of the oldest migration that a program must know to use the schema. 0
// means that the database does not say, because a program from before the first release migrated
// it.
func Floor(ctx context.Context, db Reader) (floor int, err error) {
	rows, err := db.QueryContext(ctx, getFloor)
	switch {
	case absent(err):
		return 0, nil
	case err != nil:
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&floor); err != nil {
			return 0, err
		}
	}
	return floor, rows.Err()
}

// Has reports whether a schema with this floor still has what this binary uses. It returns false if
// the floor is unknown (0).
func Has(floor int) bool { return floor != 0 && floor <= Version() }

// Usable returns an error if the schema is newer than this binary and this binary cannot use it.
func Usable(ctx context.Context, db Reader, status []Applied) error {
	newer := Newer(status)
	if newer == nil {
		return nil
	}
	floor, err := Floor(ctx, db)
	switch {
	case err != nil:
		return err
	case !Has(floor):
		return fmt.Errorf("%w, which removed what this release uses", newer)
	}
	for _, m := range status {
		if m.Unknown && numberOf(m.ID) <= Version() {
			return newer // it is not newer, but from another line of development
		}
	}
	return nil
}
