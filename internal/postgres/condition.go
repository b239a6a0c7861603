package postgres

import (
	"context"
	"errors"
	"fmt"
)

// Condition is what a server says of itself, as far as it matters to those who entrust sagas to it.
type Condition struct {
	Schema int // the version of the schema, that of its newest migration
	// Off are the settings without which the server may lose what it has confirmed:
	// fsync, synchronous_commit, full_page_writes.
	Off       []string
	Login     string
	Superuser bool // Login is one: nothing keeps it from the rows of all tenants
}

// Settings are those that Condition looks at.
var Settings = []string{"fsync", "synchronous_commit", "full_page_writes"}

// Risks names what is wrong in a few words that tell strangers nothing.
func (c Condition) Risks() []string {
	var out []string
	for _, name := range c.Off {
		out = append(out, "PostgreSQL's "+name+" is off")
	}
	if c.Superuser {
		out = append(out, "the database login is a superuser")
	}
	return out
}

// Warnings says in words what is wrong, and what to do.
func (c Condition) Warnings() []string {
	var out []string
	for _, name := range c.Off {
		out = append(out, fmt.Sprintf("%s is off: PostgreSQL may lose what it has confirmed when it or its machine crashes; set it to on (postgresql.conf, ALTER SYSTEM, ALTER ROLE, ALTER DATABASE) and run SELECT pg_reload_conf()", name))
	}
	if c.Superuser {
		out = append(out, fmt.Sprintf("the login %s is a superuser, whom row-level security does not bind: use a login of its own, see docs/operations.md", c.Login))
	}
	return out
}

// condition writes a record of a few bytes into the WAL, which its commit waits for as
// for any other write, and into no table.
const condition = `
SELECT pg_logical_emit_message(true, 'skald', 'readiness') IS NULL,
       current_setting('transaction_read_only') = 'on',
       current_setting('fsync') = 'off', current_setting('synchronous_commit') = 'off', current_setting('full_page_writes') = 'off',
       session_user, (SELECT rolsuper FROM pg_roles WHERE rolname = session_user),
       (SELECT max(version) FROM saga.saga_schema_version)`

var errReadOnly = errors.New("the session is read-only")

// Condition asks the server how it is. It fails when a write does not succeed.
func (db *DB) Condition(ctx context.Context) (Condition, error) {
	var c Condition
	var unwritten, readOnly bool
	off := make([]bool, len(Settings))
	err := db.Read.QueryRowContext(ctx, condition).Scan(&unwritten, &readOnly, &off[0], &off[1], &off[2], &c.Login,
		&c.Superuser, &c.Schema)
	switch {
	case err != nil:
		return c, Wrap("write to the database", err)
	case unwritten || readOnly:
		return c, Wrap("write to the database", errReadOnly)
	}
	for i, name := range Settings {
		if off[i] {
			c.Off = append(c.Off, name)
		}
	}
	return c, nil
}
