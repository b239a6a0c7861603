package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// An Extra is an index that Skald itself does not need: it serves a query from the seed documents,
// for people who query the database manually. Each index slows down every write to its table, in
// most cases every step of every saga, so none is created unless requested.
type Extra struct {
	Name  string
	Table string
	Keys  string // what follows the table name in CREATE INDEX
	For   string // the query it serves
	Twin  string // another index that serves it equally well, so that this one only adds the name
}

// definitionID is the column definition_id of the seeds' views.
const definitionID = `((workflow_name::text || '@'::text) || workflow_version::text)::varchar(300)`

// If a seed gives an index the name of a leaner index of Skald's, it has the suffix _all here.
var extras = []Extra{
	{Name: "idx_saga_states_status_all", Table: "saga.saga_states", Keys: `(status, created_at)`,
		For: "saga_states WHERE status IN (…) ORDER BY created_at"},
	{Name: "idx_saga_state_created", Table: "saga.saga_states", Keys: `((state::integer), created_at)`,
		For: "saga_instances WHERE state IN (…) ORDER BY created_at"},
	{Name: "idx_saga_definition_state", Table: "saga.saga_states", Keys: `((` + definitionID + `), (state::integer))`,
		For: "saga_instances WHERE definition_id = … AND state = …"},
	{Name: "idx_saga_definition_id", Table: "saga.saga_states", Keys: `((` + definitionID + `))`,
		For: "saga_instances WHERE definition_id = …", Twin: "idx_saga_definition_state"},
	{Name: "idx_saga_created_at", Table: "saga.saga_states", Keys: `(created_at)`,
		For: "saga_instances ORDER BY created_at, of all tenants"},
	{Name: "idx_saga_updated_at_all", Table: "saga.saga_states", Keys: `(updated_at)`,
		For: "saga_instances WHERE updated_at > …"},
	{Name: "idx_saga_completed_at", Table: "saga.saga_states", Keys: `(completed_at) WHERE completed_at IS NOT NULL`,
		For: "saga_instances WHERE completed_at > …", Twin: "idx_saga_terminal_cleanup"},
	{Name: "idx_sagas_status_all", Table: "saga.saga_states", Keys: `(lifecycle, created_at)`,
		For: "sagas WHERE status = …"},
	{Name: "idx_saga_step_logs_step_name_all", Table: "saga.saga_step_logs", Keys: `(step_name, started_at)`,
		For: "saga_step_logs WHERE step_name = …"},
	{Name: "idx_event_type", Table: "saga.audit_events", Keys: `(event_type, timestamp DESC)`,
		For: "saga_events WHERE event_type = … ORDER BY timestamp DESC"},
	{Name: "idx_event_step_id", Table: "saga.audit_events",
		Keys: `((((saga_id::text || ':'::text) || step_index::text)::varchar(300))) WHERE step_index IS NOT NULL`,
		For:  "saga_events WHERE step_id = …"},
	{Name: "idx_event_saga_type", Table: "saga.audit_events", Keys: `(saga_id, event_type)`,
		For: "saga_events WHERE saga_id = … AND event_type = …", Twin: "idx_event_saga_timestamp"},
	{Name: "idx_event_saga_id", Table: "saga.audit_events", Keys: `(saga_id)`,
		For: "saga_events WHERE saga_id = …", Twin: "idx_event_saga_timestamp"},
	{Name: "idx_job_runs_state_all", Table: "jobs.job_runs", Keys: `(state, scheduled_for)`,
		For: "job_runs WHERE state = … ORDER BY scheduled_for"},
	{Name: "idx_job_runs_assigned_worker_id_all", Table: "jobs.job_runs",
		Keys: `(assigned_worker_id, state) WHERE assigned_worker_id IS NOT NULL`,
		For:  "job_runs WHERE assigned_worker_id = … AND state = …"},
}

// ExtraState is the state of an extra index in the database.
type ExtraState struct {
	Extra
	Made  bool
	Valid bool // false for an index that exists but whose creation was interrupted, so no query uses it
	Bytes int64
}

// extrasKey is the advisory lock under which extras are created. It differs from the lock for
// migrations, because indexing a large table takes minutes and starting nodes wait for that lock.
const extrasKey = lockKey + 1

// Extras returns the extra indexes and their states.
func Extras(ctx context.Context, db Reader) ([]ExtraState, error) {
	rows, err := db.QueryContext(ctx, `
		SELECT n.nspname || '.' || c.relname, i.indisvalid, pg_relation_size(c.oid)
		  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		 WHERE n.nspname IN ('saga', 'jobs')`)
	if err != nil {
		return nil, fmt.Errorf("list extra indexes: %w", err)
	}
	defer rows.Close()
	there := map[string]ExtraState{}
	for rows.Next() {
		var name string
		s := ExtraState{Made: true}
		if err := rows.Scan(&name, &s.Valid, &s.Bytes); err != nil {
			return nil, err
		}
		there[name] = s
	}
	list := make([]ExtraState, len(extras))
	for i, e := range extras {
		list[i] = there[e.inSchema()]
		list[i].Extra = e
	}
	return list, rows.Err()
}

// inSchema returns the name with the table's schema.
func (e Extra) inSchema() string {
	schema, _, _ := strings.Cut(e.Table, ".")
	return schema + "." + e.Name
}

// MakeExtras creates the extra indexes with these names, or by default all those without a twin,
// and returns which were created. Writes to the tables continue meanwhile. An index whose creation
// was interrupted is created again; existing ones are left unchanged.
func MakeExtras(ctx context.Context, dsn string, names ...string) ([]string, error) {
	return changeExtras(ctx, dsn, names, "extras-up", func(s ExtraState, named bool) []string {
		create := fmt.Sprintf(`CREATE INDEX CONCURRENTLY IF NOT EXISTS %s ON %s %s`, s.Name, s.Table, s.Keys)
		switch {
		case s.Valid || s.Twin != "" && !named:
			return nil
		case s.Made:
			return []string{`DROP INDEX CONCURRENTLY IF EXISTS ` + s.inSchema(), create}
		}
		return []string{create}
	})
}

// DropExtras drops the extra indexes with these names, or by default all that exist, and returns
// which were dropped.
func DropExtras(ctx context.Context, dsn string, names ...string) ([]string, error) {
	return changeExtras(ctx, dsn, names, "extras-down", func(s ExtraState, _ bool) []string {
		if !s.Made {
			return nil
		}
		return []string{`DROP INDEX CONCURRENTLY IF EXISTS ` + s.inSchema()}
	})
}

// changeExtras executes the statements that of returns for each selected extra index, and records
// what was changed even if a later change fails.
func changeExtras(ctx context.Context, dsn string, names []string, verb string,
	of func(s ExtraState, named bool) []string) (changed []string, err error) {
	for _, name := range names {
		if !slices.ContainsFunc(extras, func(e Extra) bool { return e.Name == name }) {
			return nil, fmt.Errorf("there is no extra index %s: `skald migrate extras status` lists them", name)
		}
	}
	err = connected(dsn, func(db *sql.DB) error {
		return lockedOn(ctx, db, extrasKey, func(db *sql.DB) error {
			list, err := Extras(ctx, db)
			if err != nil {
				return err
			}
			for _, s := range list {
				named := slices.Contains(names, s.Name)
				if len(names) > 0 && !named {
					continue
				}
				statements := of(s, named)
				for _, statement := range statements {
					if err := patiently(ctx, db, statement); err != nil {
						return notMade(ctx, db, changed, verb, fmt.Errorf("%s: %w", s.Name, err))
					}
				}
				if len(statements) > 0 {
					changed = append(changed, s.Name)
				}
			}
			return recordExtras(ctx, db, verb, changed)
		})
	})
	return changed, err
}

// notMade explains why an extra index was not created or dropped.
func notMade(ctx context.Context, db *sql.DB, changed []string, verb string, err error) error {
	if denied(err) {
		err = notOwner(ctx, db, err)
	}
	if recordErr := recordExtras(ctx, db, verb, changed); recordErr != nil {
		return fmt.Errorf("%w (and the changes before it could not be recorded: %w)", err, recordErr)
	}
	return err
}

// patiently executes a statement that may take long on a large table, without the login's timeouts.
func patiently(ctx context.Context, db *sql.DB, statement string) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, s := range []string{`SET statement_timeout = 0`, `SET lock_timeout = 0`, statement} {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

const recordExtra = `
INSERT INTO saga.audit_actions (id, tenant_id, at, kind, subject, verb, actor, address, operation, detail)
SELECT gen_random_uuid(),
       '00000000-0000-0000-0000-000000000000',
       now(),
       'schema',
       'extras',
       $1::text,
       $2::text,
       $3::text,
       $4::text,
       jsonb_build_object('indexes', $5::jsonb, 'login', session_user::text)`

// recordExtras records that extra indexes were created or dropped.
func recordExtras(ctx context.Context, db *sql.DB, verb string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	list, err := json.Marshal(names)
	if err != nil {
		return err
	}
	return onRecord(ctx, db, func(tx *sql.Tx, by By) error {
		_, err := tx.ExecContext(ctx, recordExtra, verb, by.Actor, by.Address, by.Operation, string(list))
		return err
	})
}
