package postgres

import (
	"context"
	"fmt"
	"time"
)

// Condition is the state of a server as far as it affects the durability and the isolation of data.
type Condition struct {
	Schema int // the version of the schema, which is that of its newest migration
	// Floor is the newest migration that a program must know to use the schema; 0 means that there
	// is no requirement. The program queries it only if the schema is newer than the program.
	Floor int
	// Off lists the settings that are off although the server may lose confirmed writes without
	// them: fsync, synchronous_commit, full_page_writes.
	Off       []string
	Login     string
	Superuser bool // Login is a superuser, so it can access the rows of all tenants
}

// Settings are the settings that Condition checks.
var Settings = []string{"fsync", "synchronous_commit", "full_page_writes"}

// Risks lists what is wrong, briefly and without details that an anonymous client should not
// see.
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

// Warnings describes each risk and how to remove it.
func (c Condition) Warnings() []string {
	var out []string
	for _, name := range c.Off {
		out = append(out, fmt.Sprintf("%s is off: PostgreSQL may lose what it has confirmed when it or its machine crashes; set it to on (postgresql.conf, ALTER SYSTEM, ALTER ROLE, ALTER DATABASE) and run SELECT pg_reload_conf()", name))
	}
	if c.Superuser {
		out = append(out, fmt.Sprintf("the login %s is a superuser, which bypasses row-level security: use a separate login, see docs/operations.md", c.Login))
	}
	return out
}

// condition writes a few bytes to the WAL, which its commit flushes like any other write, but
// writes to no table. This would not detect a full disk: WAL files are allocated in advance, and so
// is the page of a row that is updated in place. So it also writes a temporary file of about 300
// kB, by reading a function's result that does not fit into work_mem. Temporary files are in the
// same file system as the tables unless temp_tablespaces is set.
const condition = `
SELECT pg_logical_emit_message(true, 'skald', 'readiness') IS NULL OR spilled = 0,
       current_setting('transaction_read_only') = 'on',
       current_setting('fsync') = 'off',
       current_setting('synchronous_commit') = 'off',
       current_setting('full_page_writes') = 'off',
       session_user, (SELECT rolsuper FROM pg_roles WHERE rolname = session_user),
       (SELECT max(version) FROM saga.saga_schema_version), clock_timestamp()
  FROM (SELECT count(*) AS spilled FROM set_config('work_mem', '64kB', true) AS small,
               LATERAL generate_series(length(small), 10000)) AS disk`

// Condition checks the server. It returns an error if a write fails.
func (db *DB) Condition(ctx context.Context) (Condition, error) {
	var c Condition
	var unwritten, readOnly bool
	off := make([]bool, len(Settings))
	err := db.Clock.Ask(func(there *time.Time) error {
		return db.Read.QueryRowContext(ctx, condition).Scan(&unwritten, &readOnly, &off[0], &off[1], &off[2],
			&c.Login, &c.Superuser, &c.Schema, there)
	})
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
