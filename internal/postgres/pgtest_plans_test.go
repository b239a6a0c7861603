package postgres_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// plan is what the planner would do, as EXPLAIN (FORMAT JSON) says it.
type plan struct {
	Type     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Cond     string  `json:"Index Cond"`
	Cost     float64 `json:"Total Cost"`
	Plans    []plan  `json:"Plans"`
}

// querier is a pool or one connection.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// explain plans a statement for these very arguments.
func explain(t *testing.T, q querier, query string, args ...any) plan {
	t.Helper()
	return explained(t, q.QueryRowContext(t.Context(), "EXPLAIN (FORMAT JSON) "+query, args...), query)
}

// explainGeneric plans a statement for arguments that are not known, as
// PostgreSQL does for a prepared statement that has been used a few times.
func explainGeneric(t *testing.T, conn *sql.Conn, query string, args ...any) plan {
	t.Helper()
	literals := make([]string, len(args))
	for i, a := range args {
		if v, is := a.(sqldriver.Valuer); is { // an array, as the driver would send it
			var err error
			if a, err = v.Value(); err != nil {
				t.Fatal(err)
			}
		}
		if _, binary := a.([]byte); binary || a == nil {
			literals[i] = "NULL" // what is in binary form has no literal, and its content does not matter here
			continue
		}
		literals[i] = fmt.Sprintf("'%s'", strings.ReplaceAll(fmt.Sprint(a), "'", "''"))
	}
	call := "EXECUTE generic"
	if len(args) > 0 {
		call += "(" + strings.Join(literals, ", ") + ")"
	}
	for _, s := range []string{"SET plan_cache_mode = force_generic_plan", "PREPARE generic AS " + query} {
		if _, err := conn.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	p := explained(t, conn.QueryRowContext(t.Context(), "EXPLAIN (FORMAT JSON) "+call), query)
	if _, err := conn.ExecContext(t.Context(), "DEALLOCATE generic"); err != nil {
		t.Fatal(err)
	}
	return p
}

func explained(t *testing.T, row *sql.Row, query string) plan {
	t.Helper()
	var doc []byte
	var plans []struct{ Plan plan }
	if err := row.Scan(&doc); err != nil {
		t.Fatalf("explain %s: %v", query, err)
	}
	if err := json.Unmarshal(doc, &plans); err != nil || len(plans) != 1 {
		t.Fatalf("%d plans, %v: %s", len(plans), err, doc)
	}
	return plans[0].Plan
}

// each visits every node.
func (p plan) each(f func(plan)) {
	f(p)
	for _, sub := range p.Plans {
		sub.each(f)
	}
}

func (p plan) has(nodeType string) bool {
	found := false
	p.each(func(n plan) { found = found || n.Type == nodeType })
	return found
}

func (p plan) indexes() []string {
	var names []string
	p.each(func(n plan) {
		if n.Index != "" && !slices.Contains(names, n.Index) {
			names = append(names, n.Index)
		}
	})
	return names
}

// String tells the plan in one line.
func (p plan) String() string {
	s := p.Type
	if p.Relation != "" {
		s += " on " + p.Relation
	}
	if p.Index != "" {
		s += " by " + p.Index + " " + p.Cond
	}
	for i, sub := range p.Plans {
		s += []string{" (", ", "}[min(i, 1)] + sub.String()
	}
	if len(p.Plans) > 0 {
		s += ")"
	}
	return s
}

// grown are the tables that no plan may read from end to end.
var grown = []string{
	"saga_states", "saga_step_logs", "audit_events", "saga_states_archive", "saga_step_logs_archive",
	"dlq_messages", "dlq_messages_archive", "audit_actions", "job_runs",
}

// wantIndexes checks that a plan uses every index given (one of several where
// they are written a|b) and reads none of the growing tables from end to end.
func wantIndexes(t *testing.T, p plan, want ...string) {
	t.Helper()
	used := p.indexes()
	for _, w := range want {
		if !slices.ContainsFunc(strings.Split(w, "|"), func(name string) bool { return slices.Contains(used, name) }) {
			t.Errorf("the plan uses %v, want %s:\n%s", used, w, p)
		}
	}
	p.each(func(n plan) {
		if n.Type == "Seq Scan" && slices.Contains(grown, n.Relation) {
			t.Errorf("the plan reads all of %s:\n%s", n.Relation, p)
		}
	})
}

// wantNestedLoops checks that a plan joins only by index, whatever the tables'
// statistics say: a prepared statement keeps its plan while they grow (trap X46).
func wantNestedLoops(t *testing.T, p plan) {
	t.Helper()
	if p.has("Hash Join") || p.has("Merge Join") {
		t.Errorf("the plan joins by hash or merge:\n%s", p)
	}
}

type purpose struct {
	name    string
	query   string
	args    []any
	indexes []string
}
