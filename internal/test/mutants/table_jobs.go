package mutants

// jobs are of job runs, their leader and workers.
var jobs = []Mutant{
	after("J-07",
		"DO $do$ BEGIN EXECUTE replace(pg_get_functiondef('jobs.check_transition()'::regprocedure), "+
			"'WHEN NEW.state = ''RUNNING'' THEN OLD.state = ''ASSIGNED''', 'WHEN NEW.state = ''RUNNING'' "+
			"THEN OLD.state = ''PENDING'''); END $do$"),
	after("J-08",
		"DO $do$ BEGIN EXECUTE replace(pg_get_functiondef('jobs.check_transition()'::regprocedure), "+
			"'WHEN NEW.state = ''SUCCEEDED'' THEN OLD.state = ''RUNNING''', 'WHEN NEW.state = "+
			"''SUCCEEDED'' THEN OLD.state IN (''RUNNING'', ''ASSIGNED'')'); END $do$"),
	after("J-09, J-10",
		"DO $do$ BEGIN EXECUTE replace(pg_get_functiondef('jobs.check_transition()'::regprocedure), "+
			"'WHEN NEW.state IN (''FAILED'', ''TIMED_OUT'') THEN OLD.state IN (''RUNNING'', "+
			"''ORPHANED'')', 'WHEN NEW.state IN (''FAILED'', ''TIMED_OUT'') THEN OLD.state IN "+
			"(''ORPHANED'')'); END $do$"),
	after("J-11",
		"DO $do$ BEGIN EXECUTE replace(pg_get_functiondef('jobs.check_transition()'::regprocedure), "+
			"'WHEN NEW.state = ''CANCELED'' THEN OLD.state IN (''PENDING'', ''ASSIGNED'', ''RUNNING'', "+
			"''ORPHANED'')', 'WHEN NEW.state = ''CANCELED'' THEN OLD.state IN (''PENDING'', ''RUNNING'', "+
			"''ORPHANED'')'); END $do$"),
	after("gap 6",
		"DO $do$ BEGIN EXECUTE replace(pg_get_functiondef('jobs.check_transition()'::regprocedure), "+
			"'WHEN NEW.state = ''SKIPPED'' THEN OLD.state IN (''PENDING'', ''ASSIGNED'')', 'WHEN "+
			"NEW.state = ''SKIPPED'' THEN OLD.state IN (''PENDING'', ''ASSIGNED'', ''RUNNING'')'); END $do$"),
	after("J-21, J1", "DROP INDEX jobs.idx_job_runs_definition_scheduled_for"),
	after("gap 18", "DROP INDEX jobs.idx_job_runs_concurrency_key"),
	after("J-22", "DROP INDEX jobs.idx_job_runs_idempotency_key"),
	after("J-32", "DROP INDEX jobs.idx_events_dedupe_key"),
	after("J-43", "CREATE INDEX ON jobs.job_runs (log_bytes)"),
	after("3.7-4",
		"CREATE OR REPLACE VIEW jobs.invariants WITH (security_invoker = true) AS SELECT * FROM "+
			"(SELECT i.* FROM (SELECT NULL::jobs.invariants AS r) n, LATERAL (SELECT (n.r).*) i) x WHERE false"),
	{Rows: "J-17, J-18", File: "internal/jobrun/jobdb/finish.go",
		Old: "AND r.lease_token = f.token AND r.leader_epoch = f.epoch AND",
		New: "AND r.lease_token = f.token AND f.epoch IS NOT NULL AND"},
	{Rows: "gap 12", File: "internal/jobrun/jobdb/heartbeat.go",
		Old: "\t   SET lease_expires_at = CASE r.state WHEN 'RUNNING'",
		New: "\t   SET version = r.version + 1, lease_expires_at = CASE r.state WHEN 'RUNNING'"},
	{Rows: "gap 15", File: "internal/jobrun/jobdb/heartbeat.go",
		Old: "errors.Is(err, sql.ErrNoRows) || err == nil && w.State == jobrun.WorkerDetached {",
		New: "errors.Is(err, sql.ErrNoRows) {"},
	{Rows: "gap 3", File: "internal/jobrun/jobdb/heartbeat.go",
		Old: "now.After(*r.ConfirmDeadlineAt)", New: "now.After(r.ConfirmDeadlineAt.Add(time.Hour))"},
	{Rows: "F43", File: "internal/jobrun/jobdb/leader.go",
		Old: "clock_timestamp()\n   FOR KEY SHARE OF l`", New: "clock_timestamp()`"},
	{Rows: "J-41", File: "internal/jobrun/jobdb/offload.go",
		Old: "), gone AS (\n\tDELETE FROM jobs.job_run_logs l WHERE l.run_id = $2 AND l.tenant_id = $1\n)\n",
		New: ")\n"},
	{Rows: "J-37", File: "internal/jobrun/ends.go",
		Old: "case r.Error.Retryable && r.FailuresUsed < d.spec",
		New: "case r.Error.Retryable && r.FailuresUsed < -1 && r.FailuresUsed < d.spec"},
}
