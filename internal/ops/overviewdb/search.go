package overviewdb

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/ops/overview"
	"github.com/skald-saga/skald/internal/postgres"
)

var hitTable = postgres.NewTable(
	postgres.Text("kind", func(h *overview.Hit) *overview.HitKind { return &h.Kind }),
	postgres.Text("id", func(h *overview.Hit) *string { return &h.ID }),
	postgres.Text("title", func(h *overview.Hit) *string { return &h.Title }),
	postgres.TextOrEmpty("state", func(h *overview.Hit) *string { return &h.State }),
	postgres.Bool("archived", func(h *overview.Hit) *bool { return &h.Archived }),
	postgres.TimeOrNil("at", func(h *overview.Hit) **time.Time { return &h.At }),
	postgres.Text("matched", func(h *overview.Hit) *overview.Match { return &h.Matched }),
	postgres.Bool("begins", func(h *overview.Hit) *bool { return &h.Begins }),
)

// found lists branches of a search, each with its own index and limit.
type found struct {
	from, where, order string
	columns            string // kind, id, title, state, archived, at
	matched            overview.Match
	begins             bool
}

// beginning builds a branch for rows in which a text only begins with the query. It compares in
// byte order, which is the order of an index (decision 0104).
func (f found) beginning(where, text string) found {
	f.where = where + text + ` ~>=~ @prefix AND ` + text + ` ~<~ @after`
	f.order, f.begins = " ORDER BY "+text+" USING ~<~", true
	return f
}

func (f found) text() string {
	return `(SELECT ` + f.columns + `, '` + string(f.matched) + `' AS matched, ` +
		strconv.FormatBool(f.begins) + ` AS begins FROM ` + f.from +
		` WHERE ` + f.where + f.order + ` LIMIT ` + strconv.Itoa(overview.MostHits) + `)`
}

func tableOf(live string, archived bool) string {
	if archived {
		return live + "_archive"
	}
	return live
}

// inSagas are the branches that find sagas, live and archived.
func inSagas() (all []found) {
	for _, archived := range []bool{false, true} {
		table := tableOf("saga.saga_states", archived)
		columns := fmt.Sprintf(`'saga' AS kind,
		s.id::text AS id,
		coalesce(s.business_key, s.workflow_name) AS title,
		s.state::text AS state,
		%t AS archived,
		s.created_at AS at`, archived)
		of := func(where, order string, by overview.Match) {
			all = append(all, found{table + " s", "s.tenant_id = @tenant AND " + where, order, columns, by, false})
		}
		const newest = " ORDER BY s.created_at DESC"
		of("s.id = @id", "", overview.ByID)
		of("s.business_key = @text", newest, overview.ByBusinessKey)
		of("s.correlation_id = @text", newest, overview.ByCorrelation)
		of("s.trace_id = @text", "", overview.ByTrace)
		key := found{from: table + " s", columns: columns, matched: overview.ByBusinessKey}
		correlation := found{from: table + " s", columns: columns, matched: overview.ByCorrelation}
		all = append(all, key.beginning("s.tenant_id = @tenant AND ", "s.business_key"),
			correlation.beginning("s.tenant_id = @tenant AND ", "s.correlation_id"))
	}
	return all
}

// inLetters are the branches that find letters, live and archived.
func inLetters() (all []found) {
	for _, archived := range []bool{false, true} {
		table := tableOf("dlq.dlq_messages", archived)
		columns := fmt.Sprintf(`'dead_letter' AS kind,
		m.id::text AS id,
		m.original_topic AS title,
		m.status AS state,
		%t AS archived,
		m.created_at AS at`, archived)
		of := func(table, where string, by overview.Match) {
			all = append(all, found{table + " m", "@letters AND m.tenant_id = @tenant AND " + where, "", columns, by, false})
		}
		// A row-level policy prevents the planner from using the index of the terms; the tenant's
		// views have no policy.
		terms := tableOf("dlq.tenant_messages", archived)
		of(table, "m.id = @id", overview.ByID)
		of(terms, "m.terms @> ARRAY[@correlation::integer] AND m.correlation_id = @text", overview.ByCorrelation)
		of(terms, "m.terms @> ARRAY[@trace::integer] AND m.trace_id = @text", overview.ByTrace)
	}
	return all
}

var others = []found{
	{"saga.workflows w", "w.tenant_id = @tenant AND w.name = @text AND NOT w.inline", "",
		workflowColumns,
		overview.ByName, false},
	{"saga.webhooks h", "h.tenant_id = @tenant AND h.id = @id", "",
		`'webhook' AS kind,
		h.id::text AS id,
		coalesce(substring(h.url FROM '^[a-z]+://(?:[^/@]*@)?([^/?#]+)'), '') AS title,
		CASE WHEN h.enabled THEN 'enabled' ELSE 'disabled' END AS state,
		false AS archived,
		h.created_at AS at`,
		overview.ByID, false},
	{"jobs.job_runs r", "@runs AND r.tenant_id = @tenant AND r.id = @id", "", runColumns, overview.ByID, false},
	{"jobs.job_runs r", "@runs AND r.tenant_id = @tenant AND r.correlation_id = @text", " ORDER BY r.created_at DESC", runColumns,
		overview.ByCorrelation, false},
	{"jobs.job_definitions d", "@runs AND d.tenant_id = @tenant AND d.deleted_at IS NULL AND d.name = @text", "", definitionColumns,
		overview.ByName, false},
	{"jobs.job_definitions d", "@runs AND d.tenant_id = @tenant AND d.deleted_at IS NULL AND d.id = @id", "", definitionColumns,
		overview.ByID, false},
	{"jobs.workers w", "@runs AND w.tenant_id = @tenant AND w.id = @id", "",
		`'worker' AS kind,
		w.id::text AS id,
		coalesce(nullif(w.name, ''), w.node) AS title,
		w.state AS state,
		false AS archived,
		w.registered_at AS at`,
		overview.ByID, false},
	{"dlq.dlq_groups g", "@letters AND g.tenant_id = @tenant AND g.fingerprint = @fingerprint", "",
		`'dead_letter_group' AS kind,
		g.fingerprint AS id,
		left(g.message, 200) AS title,
		g.state AS state,
		false AS archived,
		g.last_seen AS at`,
		overview.ByFingerprint, false},
	{"dlq.dlq_redrives v", "@letters AND v.tenant_id = @tenant AND v.id = @id", "",
		`'redrive' AS kind,
		v.id::text AS id,
		coalesce(nullif(v.reason, ''), lower(v.action)) AS title,
		v.state AS state,
		false AS archived,
		v.created_at AS at`,
		overview.ByID, false},
	{"dlq.dlq_messages m", "@letters AND m.tenant_id = @tenant AND m.original_topic = @text", "",
		`'topic' AS kind,
		m.original_topic AS id,
		m.original_topic AS title,
		'' AS state,
		false AS archived,
		NULL::timestamptz AS at`,
		overview.ByName, false},
	found{from: "saga.workflows w", columns: workflowColumns, matched: overview.ByName}.
		beginning("w.tenant_id = @tenant AND NOT w.inline AND ", "w.name"),
	found{from: "jobs.job_runs r", columns: runColumns, matched: overview.ByCorrelation}.
		beginning("@runs AND r.tenant_id = @tenant AND ", "r.correlation_id"),
	found{from: "jobs.job_definitions d", columns: definitionColumns, matched: overview.ByName}.
		beginning("@runs AND d.tenant_id = @tenant AND d.deleted_at IS NULL AND ", "d.name"),
	{"topics t", "starts_with(t.topic, @prefix)", "",
		`'topic' AS kind,
		t.topic AS id,
		t.topic AS title,
		'' AS state,
		false AS archived,
		NULL::timestamptz AS at`,
		overview.ByName, true},
}

const (
	workflowColumns = `'workflow' AS kind,
	w.name AS id,
	w.name AS title,
	CASE WHEN w.enabled THEN '' ELSE 'disabled' END AS state,
	false AS archived,
	w.updated_at AS at`
	runColumns = `'job_run' AS kind,
	r.id::text AS id,
	r.definition_name AS title,
	r.state AS state,
	false AS archived,
	r.created_at AS at`
	definitionColumns = `'job_definition' AS kind,
	d.name AS id,
	d.name AS title,
	CASE WHEN d.paused_at IS NOT NULL THEN 'paused' WHEN d.enabled THEN '' ELSE 'disabled' END AS state,
	false AS archived,
	d.created_at AS at`
)

// beyondText is greater than every key and name, which have at most 255 characters.
var beyondText = strings.Repeat("\U0010FFFF", 256)

// everything finds all hits. A row that several branches find is one hit, with the first match; IDs
// come before keys.
var everything = func() *postgres.Statement {
	text := ""
	for i, f := range append(append(inSagas(), inLetters()...), others...) {
		if i > 0 {
			text += "\n\tUNION ALL "
		}
		text += f.text()
	}
	return postgres.Named(`
WITH RECURSIVE topics (topic) AS ( -- each from the one before it, by the index
	(SELECT m.original_topic FROM dlq.dlq_messages m
	  WHERE @letters AND m.tenant_id = @tenant AND m.original_topic >= @prefix ORDER BY m.original_topic LIMIT 1)
	UNION ALL
	SELECT (SELECT m.original_topic FROM dlq.dlq_messages m
	         WHERE m.tenant_id = @tenant AND m.original_topic > t.topic ORDER BY m.original_topic LIMIT 1)
	  FROM topics t WHERE starts_with(t.topic, @prefix)
), hits AS (
	`+text+`
), one AS (
	SELECT DISTINCT ON (h.kind, h.id) h.* FROM hits h
	 ORDER BY h.kind,
	          h.id,
	          h.begins,
	          array_position(ARRAY['id', 'fingerprint', 'name', 'business_key', 'correlation_id', 'trace_id'], h.matched),
	          h.archived
), numbered AS (
	SELECT o.*, row_number() OVER (PARTITION BY o.kind ORDER BY o.begins, o.at DESC NULLS LAST, o.id) AS n FROM one o
)
SELECT `+hitTable.Selected("h")+`
  FROM numbered h
 WHERE h.n <= `+strconv.Itoa(overview.MostHits)+`
 ORDER BY h.begins, h.at DESC NULLS LAST, h.kind, h.id`,
		postgres.Single("tenant", "text", "id", "fingerprint", "correlation", "trace", "letters", "runs", "prefix", "after"))
}()

// Search implements overview.Store.
func (st *Store) Search(ctx context.Context, tenant uuid.UUID, q overview.Query) (hits []overview.Hit, err error) {
	args := everything.Args(postgres.Values{tenant, q.Text, postgres.NullIfZero(q.ID), q.Fingerprint,
		dlqdb.Term(tenant, dlqdb.TermCorrelation, q.Text), dlqdb.Term(tenant, dlqdb.TermTrace, q.Text),
		q.Shown.Letters, q.Shown.Runs, q.Prefix, cmp.Or(postgres.AfterPrefix(q.Prefix), beyondText)})
	err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		hits, err = hitTable.All(tx.QueryContext(ctx, everything.Text, args...))
		return err
	})
	for i := range hits {
		h := &hits[i]
		if h.Kind != overview.HitSaga || err != nil {
			continue
		}
		n, bad := strconv.Atoi(h.State) // it is a number there
		if bad != nil {
			return nil, bad
		}
		if h.State, bad = stateName(n); bad != nil {
			return nil, bad
		}
	}
	return hits, postgres.Wrap("search", err)
}
