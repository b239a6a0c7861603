package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// question is a query that is sent many times, with different values each time.
type question struct {
	name  string
	limit Millis // for its p95; 0: none
	path  func(i int) string
}

// known contains values of the generated data to filter by.
type known struct {
	samples []sample // of the main tenant, from the whole table
	latest  time.Time
}

type sample struct{ id, correlation, trace, key, customer string }

// shareOf is the percentage of a table's pages to sample: all of a small one, because a small
// share of few pages may be empty.
func shareOf(table string) string {
	return fmt.Sprintf(
		`(SELECT least(100, 1 + 1000000 / greatest(reltuples, 1)) FROM pg_class WHERE oid = '%s'::regclass)`,
		table,
	)
}

func (r *reader) know(ctx context.Context) (known, error) {
	tenant := r.Data.Tenant
	if tenant == [16]byte{} {
		tenant = defaultTenant
	}
	k := known{}
	rows, err := r.db.QueryContext(ctx, `
		SELECT id, coalesce(correlation_id, 'none'), coalesce(trace_id, 'none'), coalesce(business_key, 'none'), coalesce(metadata->>'customer', '1'), created_at
		  FROM saga.saga_states TABLESAMPLE SYSTEM (`+shareOf("saga.saga_states")+`) WHERE tenant_id = $1 ORDER BY md5(id::text) LIMIT 200`, tenant)
	if err != nil {
		return k, fmt.Errorf("look for samples: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var s sample
		var at time.Time
		if err := rows.Scan(&s.id, &s.correlation, &s.trace, &s.key, &s.customer, &at); err != nil {
			return k, fmt.Errorf("look for samples: %w", err)
		}
		k.samples = append(k.samples, s)
	}
	if err := rows.Err(); err != nil {
		return k, fmt.Errorf("look for samples: %w", err)
	}
	if len(k.samples) == 0 {
		return k, fmt.Errorf("tenant %s has no sagas to query", tenant)
	}
	err = r.db.QueryRowContext(ctx, `SELECT max(created_at) FROM saga.saga_states`).Scan(&k.latest)
	return k, err
}

func (k known) at(i int) sample { return k.samples[i%len(k.samples)] }

// filter is one way to restrict the list of sagas. Filters with a common parameter cannot be
// combined.
type filter struct {
	name   string
	values func(i int) url.Values
}

func one(name, value string) func(int) url.Values {
	return func(int) url.Values { return url.Values{name: {value}} }
}

// filters returns every filter of GET /sagas, with values that many, few and no sagas have.
func filters(k known) []filter {
	ago := func(days float64) string {
		return k.latest.Add(-time.Duration(days * 24 * float64(time.Hour))).UTC().Format(time.RFC3339)
	}
	between := func(from, to string, a, b float64) func(int) url.Values {
		return func(int) url.Values { return url.Values{from: {ago(a)}, to: {ago(b)}} }
	}
	metadata := func(doc map[string]any) url.Values {
		text, err := json.Marshal(doc)
		if err != nil {
			panic(err) // our own map
		}
		return url.Values{"metadata": {string(text)}}
	}
	all := []filter{
		{"a frequent workflow", one("workflow_name", "order")},
		{"a rare workflow", one("workflow_name", "audit")},
		{"an unknown workflow", one("workflow_name", "unknown")},
		{"initiated_by frequent", one("initiated_by", "service-0")},
		{"initiated_by rare", one("initiated_by", "back-office")},
		{"correlation_id", func(i int) url.Values { return url.Values{"correlation_id": {k.at(i).correlation}} }},
		{"trace_id", func(i int) url.Values { return url.Values{"trace_id": {k.at(i).trace}} }},
		{"business_key", func(i int) url.Values { return url.Values{"business_key": {k.at(i).key}} }},
		{"metadata of many", func(int) url.Values { return metadata(map[string]any{"region": "eu"}) }},
		{"metadata of some", func(int) url.Values { return metadata(map[string]any{"priority": "high"}) }},
		{"metadata of few", func(i int) url.Values {
			return metadata(map[string]any{"customer": json.RawMessage(k.at(i).customer)})
		}},
		{"needs_attention", one("needs_attention", "true")},
		{"not needs_attention", one("needs_attention", "false")},
		{"created within one hour", between("created_from", "created_to", 45, 45-1.0/24)},
		{"created in the last 30 days", one("created_from", ago(30))},
		{"created over 60 days ago", one("created_to", ago(60))},
		{"updated within one hour", between("updated_from", "updated_to", 45, 45-1.0/24)},
		{"updated in the last 30 days", one("updated_from", ago(30))},
		{"updated over 60 days ago", one("updated_to", ago(60))},
	}
	for _, status := range []string{"STARTED", "RUNNING", "COMPLETED", "COMPENSATING", "FAILED", "CANCELLED"} {
		all = append(all, filter{"status " + status, one("status", status)})
	}
	for _, state := range []string{"step_completed", "compensated", "failed", "timed_out"} {
		all = append(all, filter{"state " + state, one("state", state)})
	}
	return all
}

// listOf reads a page of sagas.
func listOf(name string, values func(i int) url.Values) question {
	return question{name, readLimit, func(i int) string {
		v := values(i)
		v.Set("page_size", fmt.Sprint(readSize))
		return "/api/v1/sagas?" + v.Encode()
	}}
}

// singles are lists with one filter, and lists without.
func singles(k known) []question {
	out := []question{listOf("all sagas", func(int) url.Values { return url.Values{} })}
	for _, f := range filters(k) {
		out = append(out, listOf(f.name, f.values))
	}
	return append(out,
		listOf("all sagas, with payloads", func(int) url.Values { return url.Values{"view": {"full"}} }),
		listOf("a workflow and a caller that never calls it", func(int) url.Values {
			return url.Values{"workflow_name": {"audit"}, "initiated_by": {"service-10"}}
		}),
	)
}

// pairs are lists with two filters.
func pairs(k known) []question {
	var out []question
	all := filters(k)
	for i, a := range all {
		for _, b := range all[i+1:] {
			if both, ok := merged(a.values, b.values); ok {
				out = append(out, listOf(a.name+", "+b.name, both))
			}
		}
	}
	return out
}

// merged combines two filters unless they have a parameter in common or restrict the same
// property (status and state, or two parameters for live and ended).
func merged(a, b func(int) url.Values) (func(int) url.Values, bool) {
	for name := range a(0) {
		if b(0).Has(name) || name == "status" && b(0).Has("state") {
			return nil, false
		}
	}
	return func(i int) url.Values {
		v := a(i)
		for name, values := range b(i) {
			v[name] = values
		}
		return v
	}, true
}

// lookups reads single sagas, the workflows, and the statistics.
func lookups(k known) []question {
	of := func(suffix string) func(int) string {
		return func(i int) string { return "/api/v1/sagas/" + k.at(i).id + suffix }
	}
	same := func(path string) func(int) string { return func(int) string { return path } }
	since := url.QueryEscape(k.latest.Add(-40*24*time.Hour - 90*time.Minute).UTC().Format(time.RFC3339))
	week := url.QueryEscape(time.Now().Add(-7 * 24 * time.Hour).UTC().Format(time.RFC3339))
	return []question{
		listOf("all sagas, page 500", func(int) url.Values { return url.Values{"page": {"500"}} }),
		listOf(
			"a frequent workflow, page 500",
			func(int) url.Values { return url.Values{"page": {"500"}, "workflow_name": {"order"}} },
		),
		listOf("status FAILED, page 500", func(int) url.Values { return url.Values{"page": {"500"}, "status": {"FAILED"}} }),
		{"a saga with its step logs", readLimit, of("")},
		{"the step logs of a saga", readLimit, of("/step-logs")},
		{"the steps of a saga", readLimit, of("/steps")},
		{"workflows", readLimit, same("/api/v1/workflows")},
		{"statistics", statisticsLimit, same("/api/v1/statistics/sagas")},
		{"statistics of a workflow", statisticsLimit, same("/api/v1/statistics/sagas?workflow_name=order")},
		{"statistics of forty days", statisticsLimit, same("/api/v1/statistics/sagas?created_from=" + since)},
		{"sagas by the hour, seven days", statisticsLimit, same("/api/v1/statistics/series?bucket=1h&created_from=" + week)},
		{"sagas of a workflow by five minutes", statisticsLimit, same("/api/v1/statistics/series?bucket=5m&workflow_name=order")},
		{"steps of a workflow", statisticsLimit, same("/api/v1/statistics/steps?workflow_name=order&created_from=" + since)},
		{"exact_total of all sagas (no target)", 0, same("/api/v1/sagas?page_size=20&include=exact_total")},
	}
}

// queries are what operators query in the database directly: the views of the seeds and their
// queries.
func queries(k known) []question {
	of := func(text string) func(int) string {
		return func(i int) string {
			return strings.NewReplacer("$id", k.at(i).id, "$trace", k.at(i).trace, "$correlation", k.at(i).correlation).
				Replace(text)
		}
	}
	return []question{
		{"active_sagas, 20", readLimit, of(`SELECT * FROM saga.active_sagas LIMIT 20`)},
		{"active_sagas, 20 after 1000", readLimit, of(`SELECT * FROM saga.active_sagas LIMIT 20 OFFSET 1000`)},
		{"failed_sagas, 20", readLimit, of(`SELECT * FROM saga.failed_sagas LIMIT 20`)},
		{"failed_sagas, 20 after 10000", readLimit, of(`SELECT * FROM saga.failed_sagas LIMIT 20 OFFSET 10000`)},
		{"completed_sagas, 20", readLimit, of(`SELECT * FROM saga.completed_sagas LIMIT 20`)},
		{"saga_statistics", statisticsLimit, of(`SELECT * FROM saga.saga_statistics`)},
		{"saga_instances of an id", readLimit, of(`SELECT * FROM saga.saga_instances WHERE id = '$id'`)},
		{"saga_instances of a trace", readLimit, of(`SELECT * FROM saga.saga_instances WHERE trace_id = '$trace'`)},
		{
			"saga_states of a correlation id",
			readLimit,
			of(`SELECT * FROM saga.saga_states WHERE correlation_id = '$correlation'`),
		},
		{"saga_steps of a saga", readLimit, of(`SELECT * FROM saga.saga_steps WHERE saga_id = '$id' ORDER BY step_index`)},
		{"steps_to_retry, 20", readLimit, of(`SELECT * FROM saga.steps_to_retry LIMIT 20`)},
		{"sagas of a transaction id", readLimit, of(`SELECT * FROM saga.sagas WHERE transaction_id = '$id'`)},
		{
			"step logs of a saga",
			readLimit,
			of(`SELECT * FROM saga.saga_step_logs WHERE saga_id = '$id' ORDER BY step_index, started_at`),
		},
		{
			"troubled step logs of a name, 20",
			readLimit,
			of(
				`SELECT * FROM saga.saga_step_logs WHERE step_name = 'charge-payment' AND status <> 'SUCCESS' ORDER BY started_at DESC LIMIT 20`,
			),
		},
		{
			"step logs that timed out, 20",
			readLimit,
			of(`SELECT * FROM saga.saga_step_logs WHERE status = 'TIMEOUT' ORDER BY started_at DESC LIMIT 20`),
		},
		{
			"compensations, 20",
			readLimit,
			of(`SELECT * FROM saga.saga_step_logs WHERE action = 'COMPENSATE' ORDER BY started_at DESC LIMIT 20`),
		},
	}
}

// The targets: a p95 in milliseconds for one client that sends one query after another.
const (
	readLimit       = Millis(50)
	statisticsLimit = Millis(200)
)

// walkSize is the page size with which a deep cursor is reached; measured pages have readSize.
const (
	walkSize = 200
	readSize = 20
)
