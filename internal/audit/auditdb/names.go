package auditdb

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/postgres"
)

// named contains the queries for the names of subjects whose id is not their name; $1 is the
// tenant.
var named = []struct {
	kind operator.Kind
	read string
}{
	{operator.Saga, `SELECT 'saga', n.id::text, n.workflow_name
		FROM saga.saga_states n WHERE n.tenant_id = $1 AND n.id = ANY (?::uuid[])`},
	{operator.Saga, `SELECT 'saga', n.id::text, n.workflow_name
		FROM saga.saga_states_archive n WHERE n.tenant_id = $1 AND n.id = ANY (?::uuid[])`},
	{operator.JobDefinition, `SELECT 'job_definition', n.id::text, n.name
		FROM jobs.job_definitions n WHERE n.tenant_id = $1 AND n.id = ANY (?::uuid[])`},
	{operator.JobRun, `SELECT 'job_run', n.id::text, n.definition_name
		FROM jobs.job_runs n WHERE n.tenant_id = $1 AND n.id = ANY (?::uuid[])`},
	{operator.JobWorker, `SELECT 'job_worker', n.id::text, n.name
		FROM jobs.workers n WHERE n.tenant_id = $1 AND n.id = ANY (?::uuid[])`},
	{operator.DeadLetter, `SELECT 'dead_letter', n.id::text, n.original_topic
		FROM dlq.dlq_messages n WHERE n.tenant_id = $1 AND n.id = ANY (?::uuid[])`},
	{operator.DeadLetter, `SELECT 'dead_letter', n.id::text, n.original_topic
		FROM dlq.dlq_messages_archive n WHERE n.tenant_id = $1 AND n.id = ANY (?::uuid[])`},
}

// nameSubjects reads the names of the subjects of a page.
func nameSubjects(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, actions []operator.Action) error {
	of := map[operator.Kind][]string{}
	for i := range actions {
		if id, err := uuid.Parse(actions[i].Subject); err == nil {
			of[actions[i].Kind] = append(of[actions[i].Kind], id.String())
		}
	}
	reads := postgres.Where{Args: []any{tenant}}
	for _, n := range named {
		if of[n.kind] != nil {
			reads.Add(n.read, pq.Array(of[n.kind]))
		}
	}
	if reads.Conditions == nil {
		return nil
	}
	rows, err := tx.QueryContext(ctx, strings.Join(reads.Conditions, " UNION ALL "), reads.Args...)
	if err != nil {
		return err
	}
	type subject struct {
		kind operator.Kind
		id   string
	}
	names := map[subject]string{}
	err = postgres.EachRow(rows, func() error {
		var s subject
		var name string
		err := rows.Scan(&s.kind, &s.id, &name)
		names[s] = name
		return err
	})
	for i := range actions {
		actions[i].SubjectName = names[subject{actions[i].Kind, actions[i].Subject}]
	}
	return err
}
