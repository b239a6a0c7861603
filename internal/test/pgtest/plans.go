package pgtest

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

// Plan is a query plan from EXPLAIN (FORMAT JSON).
type Plan struct {
	Type     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Cond     string  `json:"Index Cond"`
	Cost     float64 `json:"Total Cost"`
	Plans    []Plan  `json:"Plans"`
}

// Querier is a connection pool or a single connection.
type Querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Explain returns the plan of a statement for the given arguments.
func Explain(t *testing.T, q Querier, query string, args ...any) Plan {
	t.Helper()
	return explained(t, q.QueryRowContext(t.Context(), "EXPLAIN (FORMAT JSON) "+query, args...), query)
}

// ExplainGeneric returns the plan of a statement for unknown arguments, which PostgreSQL chooses
// for a prepared statement that has been used a few times.
func ExplainGeneric(t *testing.T, conn *sql.Conn, query string, args ...any) Plan {
	t.Helper()
	literals := make([]string, len(args))
	for i, a := range args {
		_, binary := a.(interface{ BinaryValue() ([]byte, error) })
		if binary {
			literals[i] = "NULL" // binary values have no literal form, and their content doesn't matter here
			continue
		}
		if v, is := a.(sqldriver.Valuer); is { // an array, in the form in which the driver sends it
			var err error
			if a, err = v.Value(); err != nil {
				t.Fatal(err)
			}
		}
		if _, binary := a.([]byte); binary || a == nil {
			literals[i] = "NULL"
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

func explained(t *testing.T, row *sql.Row, query string) Plan {
	t.Helper()
	var doc []byte
	var plans []struct{ Plan Plan }
	if err := row.Scan(&doc); err != nil {
		t.Fatalf("explain %s: %v", query, err)
	}
	if err := json.Unmarshal(doc, &plans); err != nil || len(plans) != 1 {
		t.Fatalf("%d plans, %v: %s", len(plans), err, doc)
	}
	return plans[0].Plan
}

// Each calls f for every node of the plan.
func (p Plan) Each(f func(Plan)) {
	f(p)
	for _, sub := range p.Plans {
		sub.Each(f)
	}
}

func (p Plan) Has(nodeType string) bool {
	found := false
	p.Each(func(n Plan) { found = found || n.Type == nodeType })
	return found
}

func (p Plan) Indexes() []string {
	var names []string
	p.Each(func(n Plan) {
		if n.Index != "" && !slices.Contains(names, n.Index) {
			names = append(names, n.Index)
		}
	})
	return names
}

// String describes the plan in one line.
func (p Plan) String() string {
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

// grown lists the tables that no plan may scan completely.
var grown = []string{
	"saga_states", "saga_step_logs", "audit_events", "saga_states_archive", "saga_step_logs_archive",
	"dlq_messages", "dlq_messages_archive", "audit_actions", "job_runs",
}

// WantIndexes checks that a plan uses each of the given indexes ("a|b" means either of the two) and
// doesn't scan any of the growing tables completely.
func WantIndexes(t *testing.T, p Plan, want ...string) {
	t.Helper()
	used := p.Indexes()
	for _, w := range want {
		if !slices.ContainsFunc(strings.Split(w, "|"), func(name string) bool { return slices.Contains(used, name) }) {
			t.Errorf("the plan uses %v, want %s:\n%s", used, w, p)
		}
	}
	p.Each(func(n Plan) {
		if n.Type == "Seq Scan" && slices.Contains(grown, n.Relation) {
			t.Errorf("the plan reads all of %s:\n%s", n.Relation, p)
		}
	})
}

// WantNestedLoops checks that a plan joins only by index, whatever the tables' statistics are: a
// prepared statement keeps its plan while the tables grow (trap X46).
func WantNestedLoops(t *testing.T, p Plan) {
	t.Helper()
	if p.Has("Hash Join") || p.Has("Merge Join") {
		t.Errorf("the plan joins by hash or merge:\n%s", p)
	}
}

type Purpose struct {
	Name    string
	Query   string
	Args    []any
	Indexes []string
}
