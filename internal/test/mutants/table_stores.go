package mutants

var stores = []Mutant{
	{[]string{"J-06", "J-14", "J6"}, "internal/jobrun/machine.go",
		"	{Assigned, Canceled, []Mover{Operator, Leader}},\n", "", "jobdb.TestTheDatabaseKnowsTheTableOfTransitions"},
	{[]string{"J-23", "J2"}, "internal/jobrun/jobdb/claim_statement.go",
		"LIMIT q.room FOR NO KEY UPDATE OF r SKIP LOCKED", "LIMIT q.room", "jobdb.TestWorkersThatRaceNeverShareARun"},
	{[]string{"J3", "F50", "F11", "X17", "gap 1", "J-19", "J-25"}, "internal/jobrun/jobdb/finish.go",
		"AND r.lease_token = f.token AND", "AND (r.lease_token = f.token OR r.lease_token IS NOT NULL) AND",
		"jobdb.TestAStaleWorkersCallsAreRefusedAndOnlyRecorded"},
	{[]string{"J5", "J-02", "gap 11"}, "internal/jobrun/jobdb/leader.go",
		"epoch = l.epoch + 1, acquired_at", "epoch = l.epoch, acquired_at", "jobdb.TestOfManyContendersOneLeadsAndEpochsGrow"},
	{[]string{"F39"}, "internal/dlq/dlqdb/queue.go",
		" FOR NO KEY UPDATE OF m SKIP LOCKED\n" +
			"), due AS (\n" +
			"\tSELECT s.id\n" +
			"\t  FROM (SELECT l.id, sum(l.size) OVER (ORDER BY l.next_retry_at, l.seq) - l.size AS before FROM locked l) AS s\n" +
			"\t WHERE s.before < $4\n" +
			")\n" +
			"UPDATE dlq.dlq_messages m` + ClaimLetter + `\n" +
			"  FROM due WHERE m.id = due.id AND ` + Leaves(\"m.status || ''\", dlq.Claimed) + `",
		"\n" +
			"), due AS (\n" +
			"\tSELECT s.id\n" +
			"\t  FROM (SELECT l.id, sum(l.size) OVER (ORDER BY l.next_retry_at, l.seq) - l.size AS before FROM locked l) AS s\n" +
			"\t WHERE s.before < $4\n" +
			")\n" +
			"UPDATE dlq.dlq_messages m` + ClaimLetter + `\n" +
			"  FROM due WHERE m.id = due.id",
		"dlqdb.TestADueLetterIsClaimedOnceByManyClaimers"},
	{[]string{"F40"}, "internal/dlq/dlqdb/finish.go",
		"\t   AND m.retry_token = f.token\n", "\t   AND f.token IS NOT NULL\n",
		"dlqdb.TestAnEndIsStoredOnceAndOnlyWhileItsTokenHoldsTheLetter"},
	{[]string{"X46"}, "internal/postgres/postgres.go",
		"\"enable_hashjoin\": \"off\", ", "\"enable_hashjoin\": \"on\", ", "sagadb.TestWritersNeverJoinByHash"},
	{[]string{"F30"}, "internal/postgres/postgres.go",
		"= ms(timeout / 2)", "= ms(timeout / 3)", "postgres.TestPoolsHaveTheirOwnSettings"},
	{[]string{"T11"}, "internal/dlq/dlqdb/policies.go",
		"AND p.topic = $2\n\t\t FOR UPDATE`, p.TenantID, p.Topic)", "AND p.topic = '`+p.Topic+`' FOR UPDATE`, p.TenantID)",
		"archtest.TestSQLIsNeverPutTogetherFromValues"},
	{[]string{"X15", "F28"}, "db/migrations/0005_workflows.sql",
		"guard_workflow_definitions BEFORE UPDATE ON", "guard_workflow_definitions BEFORE UPDATE OF name ON",
		"db.TestDefinitionsAreImmutable"},
	{[]string{"S1-44"}, "db/migrations/0003_saga_step_logs.sql",
		"update_updated_at BEFORE UPDATE ON", "update_updated_at BEFORE UPDATE OF id ON",
		"db.TestUpdatedAtIsStampedForThoseWhoDoNotStampIt"},
	{[]string{"D-20"}, "db/migrations/0101_dlq_messages.sql",
		"CHECK (error_class IN (", "CHECK (true OR error_class IN (", "db.TestLettersThatContradictThemselvesAreRefused"},
	{[]string{"J-03", "J-20"}, "db/migrations/0112_job_runs.sql",
		"CREATE TRIGGER trg_job_runs_transition BEFORE UPDATE ON", "CREATE TRIGGER trg_job_runs_transition BEFORE UPDATE OF id ON",
		"jobdb.TestTheDatabaseRefusesWhatNoTransitionMayDo"},
}
