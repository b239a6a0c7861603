package db_test

import (
	"database/sql"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// seedsTables contains the tables of the seeds and what represents them: a table, or a view over a
// table that has the constraints, indexes and triggers. columns maps columns of the table that have
// another name.
var seedsTables = []struct {
	seed, shown, base string
	columns           map[string]string
}{
	{"seed1.saga_states", "saga.saga_states", "saga.saga_states", nil},
	{"seed1.saga_step_logs", "saga.saga_step_logs", "saga.saga_step_logs", nil},
	{"seed2.saga_instances", "saga.saga_instances", "saga.saga_states", nil},
	{"seed2.saga_steps", "saga.saga_steps", "saga.saga_step_logs", map[string]string{"name": "step_name",
		"input_data": "-", "error": "-", "created_at": "-", "started_at": "-", "completed_at": "-", "id": "-"}},
	{"seed2.saga_events", "saga.saga_events", "saga.audit_events", nil},
	{"seed3.dlq_messages", "dlq.dlq_messages", "dlq.dlq_messages", nil},
	{"seed3.dlq_messages_archive", "dlq.dlq_messages_archive", "dlq.dlq_messages_archive", nil},
	{"seed4.sagas", "saga.sagas", "saga.saga_states", map[string]string{"transaction_id": "id", "status": "lifecycle"}},
}

const (
	columnsOf = `SELECT concat(a.attname, ' ', format_type(a.atttypid, a.atttypmod), '/',
		CASE WHEN a.attnotnull THEN ' NOT NULL' END,
		CASE WHEN a.attgenerated <> '' THEN ' GENERATED' WHEN d.adbin IS NOT NULL THEN ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid) END,
		' COMMENT ' || col_description(a.attrelid, a.attnum))
	  FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
	 WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped`
	indexesOf = `SELECT concat(indexname, CASE WHEN indexdef LIKE 'CREATE UNIQUE%' THEN ' unique' END, ' ', substring(indexdef FROM ' USING (.*)')) FROM pg_indexes WHERE schemaname || '.' || tablename = $1
	 AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = (schemaname || '.' || indexname)::regclass AND contype IN ('p', 'u'))`
	triggersOf = `SELECT concat(tgname, substring(pg_get_triggerdef(oid) FROM ' (?:BEFORE|AFTER).*')) FROM pg_trigger WHERE tgrelid = $1::regclass AND NOT tgisinternal`
)

// unqualified removes schema names, because the seeds' tables are in a schema of their own.
var unqualified = regexp.MustCompile(`\b(seed\d|saga|dlq)\.`)

// traits returns the properties of a table by their names: "column status", "index idx_x", "check
// (a, b)" and so on.
func traits(t *testing.T, pool *sql.DB, table string) map[string]string {
	t.Helper()
	all := map[string]string{}
	add := func(kind, query string, args ...any) {
		for _, line := range texts(t, pool, query, args...) {
			name, what, _ := strings.Cut(unqualified.ReplaceAllString(line, ""), " ")
			name = kind + " " + name
			if all[name] != "" {
				what = all[name] + " and " + what
			}
			all[name] = strings.TrimSpace(what)
		}
	}
	const columns = `SELECT replace((SELECT array_agg(attname ORDER BY attname) FROM pg_attribute
		WHERE attrelid = conrelid AND attnum = ANY (conkey))::text, ' ', '') || ' ' || pg_get_constraintdef(oid)
		FROM pg_constraint WHERE conrelid = $1::regclass AND contype = $2 ORDER BY 1`
	add("column", columnsOf, table)
	add("check of", columns, table, "c")
	add("key", `SELECT 'primary ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = $1::regclass AND contype = 'p'`, table)
	add("foreign key of", columns, table, "f")
	add("index", indexesOf, table)
	add("trigger", triggersOf, table)
	return all
}

// difference is one trait of a table, as it is and as a seed has it.
type difference struct{ ours, seeds string }

// differences returns the traits of the seeds' tables that differ in Skald's tables.
func differences(t *testing.T, pool *sql.DB) map[string]difference {
	t.Helper()
	all := map[string]difference{}
	for _, table := range seedsTables {
		ours, base := traits(t, pool, table.shown), traits(t, pool, table.base)
		for trait, wants := range traits(t, pool, table.seed) {
			has, of := base[trait], trait
			if name, is := strings.CutPrefix(trait, "check of {"); is {
				if other := table.columns[strings.TrimSuffix(name, "}")]; other != "" {
					has = strings.ReplaceAll(base["check of {"+other+"}"], other, strings.TrimSuffix(name, "}"))
				}
			}
			if name, is := strings.CutPrefix(trait, "column "); is {
				if other := table.columns[name]; other != "" {
					of = "column " + other
				}
				kind, rest, _ := strings.Cut(ours[trait], "/")
				if table.shown != table.base { // a view's columns have neither defaults nor constraints
					_, rest, _ = strings.Cut(base[of], "/")
				}
				has = strings.TrimSpace(kind + rest)
				wants = strings.Replace(wants, "/", "", 1)
			}
			if has != wants {
				all[table.seed+": "+trait] = difference{has, wants}
			}
		}
	}
	return all
}

// Whole tables are compared: each column with its type, nullability, default and comment, and each
// key, CHECK, index and trigger of the seeds exists as the seeds define it. Otherwise, the
// difference is listed with the row of the requirements that explains it.
func TestTheTablesAreThoseOfTheSeedsButForWhatDiffers(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	pool := open(t, dsn)
	states, err := db.Extras(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	for _, extra := range states {
		if _, err := db.MakeExtras(t.Context(), dsn, extra.Name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"1", "2", "3", "4"} {
		text, err := os.ReadFile("testdata/seeds/" + name + ".sql")
		if err != nil {
			t.Fatal(err)
		}
		execute(t, pool, string(text))
	}
	got := differences(t, pool)
	page, err := os.ReadFile("../docs/requirements.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differing {
		is, different := got[d.trait]
		if !different || is.ours != d.is {
			t.Errorf("%s: %s: listed as\n%s\nis\n%s", d.row, d.trait, d.is, is.ours)
		}
		delete(got, d.trait)
		if !regexp.MustCompile(`(?m)^\| ` + d.row + ` \|.*\*differs\*: .*\|$`).Match(page) {
			t.Errorf("%s: %s does not say why it differs", d.trait, d.row)
		}
	}
	for trait, is := range got {
		t.Errorf("%s differs from the seed, which nothing says:\n%s\nof the seed:\n%s", trait, is.ours, is.seeds)
	}
}
