package mutants

var stores = []Mutant{
	{Rows: "J-06, J-14, J6", File: "internal/jobrun/machine.go",
		Old: "	{Assigned, Canceled, []Mover{Operator, Leader}},\n", New: ""},
	{Rows: "J-23, J2", File: "internal/jobrun/jobdb/claim_statement.go",
		Old: "LIMIT q.room FOR NO KEY UPDATE OF r SKIP LOCKED", New: "LIMIT q.room"},
	{Rows: "J3, F50, F11, X17, gap 1, J-19, J-25", File: "internal/jobrun/jobdb/finish.go",
		Old: "AND r.lease_token = f.token AND", New: "AND (r.lease_token = f.token OR r.lease_token IS NOT NULL) AND"},
	{Rows: "J5, J-02, gap 11", File: "internal/jobrun/leaderdb/elections.go",
		Old: "epoch = l.epoch + 1, acquired_at", New: "epoch = l.epoch, acquired_at"},
	{Rows: "F39", File: "internal/dlq/dlqdb/queue.go",
		Old: " FOR NO KEY UPDATE OF m SKIP LOCKED\n" +
			"), due AS (\n" +
			"\tSELECT s.id\n" +
			"\t  FROM (SELECT l.id, sum(l.size) OVER (ORDER BY l.next_retry_at, l.seq) - l.size AS before FROM locked l) AS s\n" +
			"\t WHERE s.before < $4\n" +
			")\n" +
			"UPDATE dlq.dlq_messages m` + ClaimLetter + `\n" +
			"  FROM due WHERE m.id = due.id AND ` + Leaves(\"m.status || ''\", dlq.Claimed) + `",
		New: "\n" +
			"), due AS (\n" +
			"\tSELECT s.id\n" +
			"\t  FROM (SELECT l.id, sum(l.size) OVER (ORDER BY l.next_retry_at, l.seq) - l.size AS before FROM locked l) AS s\n" +
			"\t WHERE s.before < $4\n" +
			")\n" +
			"UPDATE dlq.dlq_messages m` + ClaimLetter + `\n" +
			"  FROM due WHERE m.id = due.id"},
	{Rows: "F40", File: "internal/dlq/dlqdb/finish.go",
		Old: "\t   AND m.retry_token = f.token\n", New: "\t   AND f.token IS NOT NULL\n"},
	{Rows: "X46", File: "internal/postgres/postgres.go",
		Old: "\"enable_hashjoin\": \"off\", ", New: "\"enable_hashjoin\": \"on\", "},
	{Rows: "F30", File: "internal/postgres/postgres.go",
		Old: "= ms(timeout / 2)", New: "= ms(timeout / 3)"},
	{Rows: "T11", File: "internal/dlq/dlqdb/policies.go",
		Old: "AND p.topic = $2\n\t\t FOR UPDATE`, p.TenantID, p.Topic)", New: "AND p.topic = '`+p.Topic+`' FOR UPDATE`, p.TenantID)"},
	{Rows: "X15, F28", File: "db/migrations/0005_workflows.sql",
		Old: "guard_workflow_definitions BEFORE UPDATE ON", New: "guard_workflow_definitions BEFORE UPDATE OF name ON"},
	{Rows: "S1-44", File: "db/migrations/0003_saga_step_logs.sql",
		Old: "update_updated_at BEFORE UPDATE ON", New: "update_updated_at BEFORE UPDATE OF id ON"},
	{Rows: "D-20", File: "db/migrations/0101_dlq_messages.sql",
		Old: "CHECK (error_class IN (", New: "CHECK (true OR error_class IN ("},
	{Rows: "J-03, J-20", File: "db/migrations/0112_job_runs.sql",
		Old: "CREATE TRIGGER trg_job_runs_transition BEFORE UPDATE ON", New: "CREATE TRIGGER trg_job_runs_transition BEFORE UPDATE OF id ON"},
}
