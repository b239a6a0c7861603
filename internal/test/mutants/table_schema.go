package mutants

// schema contains the mutants that break what the seeds require of tables, as the tests of package
// db see them.
var schema = []Mutant{
	after("S1-04", "ALTER TABLE saga.saga_states ALTER id DROP DEFAULT"),
	after("S1-05", "ALTER TABLE saga.saga_states ALTER workflow_name DROP NOT NULL"),
	after("S1-09", "ALTER TABLE saga.saga_states ALTER correlation_id SET NOT NULL"),
	after("S1-12, S2-14", "ALTER TABLE saga.saga_states ALTER created_at DROP DEFAULT"),
	after("S2-15", "ALTER TABLE saga.saga_states ALTER updated_at DROP DEFAULT"),
	after("S1-28", "ALTER TABLE saga.saga_step_logs ALTER step_index DROP NOT NULL"),
	after("S1-29", "ALTER TABLE saga.saga_step_logs ALTER step_name DROP NOT NULL"),
	after("beyond 11", "DROP TRIGGER keep_requests ON saga.saga_states"),
	{Rows: "beyond 12", File: "internal/saga/sagadb/tables.go", Old: "if r.Parts != nil {", New: "if r.Parts != nil && r.Action == saga.Compensate {"},
	{Rows: "S1-32", File: "internal/saga/request.go",
		Old: "c.outputs[k] = orNull(from.Response)", New: "c.outputs[k] = orNull(nil)"},
	after("S1-33", "ALTER TABLE saga.saga_step_logs ALTER response_payload SET NOT NULL"),
	after("S1-34", "ALTER TABLE saga.saga_step_logs ALTER error_message DROP EXPRESSION"),
	after("S4-07", "ALTER TABLE saga.saga_states ALTER saga_type DROP NOT NULL"),
	after("S4-08", "ALTER TABLE saga.saga_states ALTER initiated_by DROP NOT NULL"),
	after("S4-12", "ALTER TABLE saga.saga_states ALTER updated_at DROP NOT NULL"),
	after("S2-07", "ALTER VIEW saga.saga_instances RENAME id TO saga_id"),
	after("S2-53", "ALTER VIEW saga.saga_steps RENAME saga_id TO instance_id"),
	after("S2-83", "ALTER TABLE saga.audit_events ALTER id DROP DEFAULT"),
	after("S2-84", "ALTER VIEW saga.saga_events RENAME saga_id TO instance_id"),
	after("S2-52", "ALTER VIEW saga.saga_steps RENAME id TO step_id"),
	after("S2-55", "ALTER VIEW saga.saga_steps RENAME name TO step_name"),
	after("S2-59", "ALTER VIEW saga.saga_steps RENAME created_at TO made_at"),
	after("S2-107", "DROP TRIGGER trigger_saga_updated_at ON saga.saga_states"),
	after("D-09", "ALTER TABLE dlq.dlq_messages ALTER original_topic SET DEFAULT 't'"),
	after("D-10", "ALTER TABLE dlq.dlq_messages ALTER id DROP DEFAULT"),
	after("D-11", "ALTER TABLE dlq.dlq_messages ALTER original_topic DROP NOT NULL"),
	after("D-12", "ALTER TABLE dlq.dlq_messages ALTER error_message DROP NOT NULL"),
	after("D-13", "ALTER TABLE dlq.dlq_messages ALTER retry_count SET DEFAULT 1"),
	after("D-14", "ALTER TABLE dlq.dlq_messages ALTER max_retries SET DEFAULT 5"),
	after("D-15", "ALTER TABLE dlq.dlq_messages ALTER payload SET NOT NULL"),
	after("D-16", "ALTER TABLE dlq.dlq_messages ALTER status SET DEFAULT 'DEAD'"),
	after("D-17", "ALTER TABLE dlq.dlq_messages ALTER created_at DROP DEFAULT"),
	after("D-18", "ALTER TABLE dlq.dlq_messages ALTER updated_at DROP DEFAULT"),
	after("D-19", "ALTER TABLE dlq.dlq_messages ALTER last_retry_at SET NOT NULL"),
	after("D-24", "DROP TRIGGER trg_dlq_messages_updated_at ON dlq.dlq_messages"),
	after("D-06", "CREATE EXTENSION pgcrypto"),
	after("D-08",
		"CREATE OR REPLACE TRIGGER trg_dlq_messages_updated_at BEFORE UPDATE OF note ON "+
			"dlq.dlq_messages FOR EACH ROW EXECUTE FUNCTION dlq.update_updated_at()"),
	after("D-43, D-44",
		"DROP TABLE dlq.dlq_messages_archive CASCADE; CREATE TABLE dlq.dlq_messages_archive (id "+
			"uuid, archived_at timestamptz) PARTITION BY RANGE (archived_at)"),
	after("J-31", "DROP INDEX jobs.idx_events_processed_at"),
	after("J-42", "ALTER TABLE jobs.settings RENAME TO options"),
	after("S1-25, S1-27, S2-05, S2-75", "DROP TRIGGER delete_step_logs ON saga.saga_states"),
	after("S1-13",
		"DROP TRIGGER update_saga_states_updated_at ON saga.saga_states; DROP TRIGGER "+
			"trigger_saga_updated_at ON saga.saga_states"),
	after("S1-30",
		"ALTER TABLE saga.saga_step_logs DROP CONSTRAINT chk_saga_step_logs_action, ADD CONSTRAINT "+
			"chk_saga_step_logs_action CHECK (action IN ('EXECUTE', 'COMPENSATE', 'UNDO'))"),
	after("S1-31",
		"ALTER TABLE saga.saga_step_logs DROP CONSTRAINT chk_saga_step_logs_status, ADD CONSTRAINT "+
			"chk_saga_step_logs_status CHECK (status IN ('SUCCESS', 'FAILED', 'TIMEOUT', 'SKIPPED', "+
			"'RUNNING', 'LOST'))"),
	after("S1-36, S2-130", "ALTER TABLE saga.saga_step_logs DROP CONSTRAINT chk_saga_step_logs_running"),
	{Rows: "S1-15", File: "db/migrations/0002_saga_states.sql",
		Old: "WHEN 1 THEN 'RUNNING'", New: "WHEN 1 THEN 'STARTED'"},
	{Rows: "S1-16", File: "db/migrations/0002_saga_states.sql",
		Old: "WHEN 3 THEN 'COMPLETED'", New: "WHEN 3 THEN 'RUNNING'"},
	{Rows: "S1-17", File: "db/migrations/0002_saga_states.sql",
		Old: "WHEN 4 THEN 'COMPENSATING'", New: "WHEN 4 THEN 'RUNNING'"},
	{Rows: "S1-18", File: "db/migrations/0002_saga_states.sql",
		Old: "WHEN 7 THEN 'CANCELLED' ELSE 'FAILED'",
		New: "WHEN 7 THEN 'CANCELLED' WHEN 8 THEN 'CANCELLED' ELSE 'FAILED'"},
	{Rows: "S4-09", File: "db/migrations/0002_saga_states.sql",
		Old: "WHEN state = 4 THEN 'compensating'", New: "WHEN state = 4 THEN 'active'"},
	{Rows: "I5", File: "db/migrations/0014_interventions.sql",
		Old: "OR (OLD.state <> 0 AND NEW.state = 0))", New: "OR (OLD.state = 3 AND NEW.state = 0))"},
	{Rows: "S2-106, S2-06", File: "db/migrations/0150_views_by_tenant.sql",
		From: "CREATE OR REPLACE FUNCTION saga.cleanup_expired_sagas(older_than timestamptz) RETURNS integer\n" +
			"LANGUAGE plpgsql SET search_path = pg_catalog AS $$\nDECLARE\n    batch uuid[];\n" +
			"    tenants uuid[];",
		Old: "AND completed_at < older_than AND", New: "AND"},
	{Rows: "D-42", File: "db/migrations/0102_dlq_archive.sql",
		Old: "p_batch_size integer DEFAULT 1000)\nLANGUAGE plpgsql AS $$\nDECLARE\n    v_archived",
		New: "p_batch_rows integer DEFAULT 1000)\nLANGUAGE plpgsql AS $$\nDECLARE\n" +
			"    p_batch_size integer := p_batch_rows;\n    v_archived"},
	{Rows: "D-40", File: "db/migrations/0102_dlq_archive.sql",
		Old: "p_days integer DEFAULT 365,", New: "p_days integer DEFAULT 367,"},
	{Rows: "D-36", File: "db/migrations/0101_dlq_messages.sql",
		Old: "IF EXISTS (SELECT FROM dlq.dlq_messages", New: "IF NOT EXISTS (SELECT FROM dlq.dlq_messages"},
	after("D-45",
		"ALTER TABLE dlq.dlq_messages ALTER max_retries SET DEFAULT 0; ALTER TABLE dlq.dlq_messages "+
			"DROP CONSTRAINT chk_dlq_messages_retries"),
	after("S1-02", "GRANT SELECT ON saga.saga_states TO PUBLIC"),
	after("S2-121", "GRANT UPDATE ON saga.audit_events TO saga_app_role"),
	after("D-03", "GRANT SELECT ON dlq.dlq_messages TO PUBLIC"),
	after("T15", "GRANT DELETE ON jobs.job_runs TO saga_readonly_role"),
	after("X4", "REVOKE USAGE ON ALL SEQUENCES IN SCHEMA saga FROM saga_engine_role, saga_app_role"),
	after("S2-122", "REVOKE SELECT ON saga.saga_states FROM saga_readonly_role"),
	after("D-54", "REVOKE SELECT ON dlq.dlq_messages FROM saga_readonly_role"),
	after("S4-03", "CREATE POLICY others ON saga.saga_states FOR SELECT TO saga_app_role USING (true)"),
	after("X3", "DROP POLICY tenant_rows ON saga.saga_step_logs"),
	after("F67", "DROP POLICY engine_rows ON dlq.dlq_messages"),
	after("engine", "DROP POLICY engine_rows ON saga.saga_states"),
	after("X35",
		"ALTER TABLE saga.audit_events DISABLE TRIGGER ALL; GRANT DELETE, UPDATE, TRUNCATE ON "+
			"saga.audit_events TO saga_engine_role"),
	{Rows: "X36", File: "db/migrations/0015_statistics.sql",
		Old: "coalesce(sum(sagas) FILTER (WHERE state = 5), 0)",
		New: "coalesce(sum(sagas) FILTER (WHERE state = 6), 0)"},
	{Rows: "S2-105", File: "db/migrations/0015_statistics.sql",
		Old: "sum(duration_us) / nullif(sum(timed), 0) / 1000000",
		New: "sum(duration_us) / nullif(sum(sagas), 0) / 1000000"},
	{Rows: "S2-119", File: "db/db.go",
		Old: "if m.At.IsZero() {\n\t\t\treturn &Pending",
		New: "if m.At.IsZero() && m.ID == \"\" {\n\t\t\treturn &Pending"},
	{Rows: "S2-120", File: "db/db.go",
		Old: "\tif err := Usable(ctx, db, status); err != nil {\n\t\treturn err\n\t}\n\treturn Unchanged",
		New: "\treturn Unchanged"},
	{Rows: "S1-03, S1-45, D-04", File: "db/migrations/0001_schema.sql",
		Old: "DROP FUNCTION IF EXISTS saga.update_updated_at();\n",
		New: "DROP FUNCTION IF EXISTS saga.update_updated_at(int);\n"},
	{Rows: "S1-48", File: "db/migrations/0100_dlq_schema.sql",
		Old: "CREATE SCHEMA dlq;",
		New: "CREATE SCHEMA IF NOT EXISTS dlq; CREATE TABLE public.dlq_leftover (id int);"},
	{Rows: "S1-65", File: "db/migrations/0001_schema.sql",
		Old: "DROP SCHEMA IF EXISTS saga;",
		New: "DROP SCHEMA IF EXISTS saga; DROP TABLE IF EXISTS somebody_elses;"},
	{Rows: "D-07", File: "db/migrations/0100_dlq_schema.sql",
		Old: "DROP SCHEMA dlq;", New: ""},
	{Rows: "S1-47", File: "db/migrations/0001_schema.sql",
		Old: "DROP TABLE IF EXISTS saga.saga_schema_version;\n", New: ""},
	{Rows: "S1-49", File: "db/migrations/0380_saga_model.sql",
		Old: "DELETE FROM saga.saga_schema_version WHERE version = 380;\n", New: ""},
	{Rows: "D-35", File: "db/migrations/0100_dlq_schema.sql",
		Old: "DROP FUNCTION dlq.update_updated_at();\n", New: ""},
	{Rows: "D-37", File: "db/migrations/0102_dlq_archive.sql",
		Old: "DROP FUNCTION dlq.purge_batch(integer, integer, integer);\n", New: ""},
	{Rows: "X39", File: "db/migrations/0464_participants.sql", // one of the newest twelve: older ones run together
		Old: "DELETE FROM saga.saga_schema_version WHERE version = 464;",
		New: "DELETE FROM saga.saga_schema_version WHERE version >= 455;"},
	{Rows: "F57", File: "db/migrations/0150_views_by_tenant.sql",
		Old: "INSERT INTO saga.saga_states_archive (%1$s) SELECT %1$s FROM gone', heads) USING batch, tenants",
		New: "INSERT INTO saga.saga_states_archive (%1$s) SELECT %1$s FROM gone WHERE false', heads) " +
			"USING batch, tenants"},
	after("S2-60",
		"DO $do$ DECLARE was text := pg_get_viewdef('saga.steps_by_tenant'::regclass); becomes text "+
			":= replace(was, 'COALESCE(x.started_at, f.sent_at) AS started_at', 'f.sent_at AS "+
			"started_at'); BEGIN ASSERT was <> becomes, 'nothing is replaced'; EXECUTE 'CREATE OR "+
			"REPLACE VIEW saga.steps_by_tenant WITH (security_invoker = true) AS ' || becomes; END $do$"),
	after("S2-61",
		"DO $do$ DECLARE was text := pg_get_viewdef('saga.steps_by_tenant'::regclass); becomes text "+
			":= replace(was, 'WHEN (f.state > 1) THEN x.completed_at', 'WHEN (f.state > 0) THEN "+
			"x.completed_at'); BEGIN ASSERT was <> becomes, 'nothing is replaced'; EXECUTE 'CREATE OR "+
			"REPLACE VIEW saga.steps_by_tenant WITH (security_invoker = true) AS ' || becomes; END $do$"),
	after("S2-62",
		"DO $do$ DECLARE was text := pg_get_viewdef('saga.steps_by_tenant'::regclass); becomes text "+
			":= replace(was, 'COALESCE(x.last_attempt_at, f.sent_at)', 'COALESCE(x.started_at, "+
			"f.sent_at)'); BEGIN ASSERT was <> becomes, 'nothing is replaced'; EXECUTE 'CREATE OR "+
			"REPLACE VIEW saga.steps_by_tenant WITH (security_invoker = true) AS ' || becomes; END $do$"),
	after("S2-63",
		"DO $do$ DECLARE was text := pg_get_viewdef('saga.steps_by_tenant'::regclass); becomes text "+
			":= replace(was, 'COALESCE((h.by -> ''input''::text), s.payload)', 's.payload'); BEGIN "+
			"ASSERT was <> becomes, 'nothing is replaced'; EXECUTE 'CREATE OR REPLACE VIEW "+
			"saga.steps_by_tenant WITH (security_invoker = true) AS ' || becomes; END $do$"),
	after("S2-64",
		"DO $do$ DECLARE was text := pg_get_viewdef('saga.steps_by_tenant'::regclass); becomes text "+
			":= replace(was, 'x.output AS output_data', 'NULL::jsonb AS output_data'); BEGIN ASSERT was "+
			"<> becomes, 'nothing is replaced'; EXECUTE 'CREATE OR REPLACE VIEW saga.steps_by_tenant "+
			"WITH (security_invoker = true) AS ' || becomes; END $do$"),
	after("S2-65",
		"DO $do$ DECLARE was text := pg_get_viewdef('saga.steps_by_tenant'::regclass); becomes text "+
			":= replace(was, '    x.error,\n', '    c.error,\n"+
			"'); BEGIN ASSERT was <> becomes, 'nothing is replaced'; EXECUTE 'CREATE OR REPLACE VIEW "+
			"saga.steps_by_tenant WITH (security_invoker = true) AS ' || becomes; END $do$"),
	after("S2-66",
		"DO $do$ DECLARE was text := pg_get_viewdef('saga.steps_by_tenant'::regclass); becomes text "+
			":= replace(was, 'GREATEST(n.undo_calls, h.sent)', 'n.undo_calls'); BEGIN ASSERT was <> becomes, "+
			"'nothing is replaced'; EXECUTE 'CREATE OR REPLACE VIEW saga.steps_by_tenant WITH "+
			"(security_invoker = true) AS ' || becomes; END $do$"),
	after("S2-57",
		"DO $do$ DECLARE was text := pg_get_viewdef('saga.steps_by_tenant'::regclass); becomes text "+
			":= replace(was, 'GREATEST(n.calls, h.sent)', 'n.calls'); BEGIN ASSERT was <> becomes, "+
			"'nothing is replaced'; EXECUTE 'CREATE OR REPLACE VIEW saga.steps_by_tenant WITH "+
			"(security_invoker = true) AS ' || becomes; END $do$"),
	after("S2-58",
		"DO $do$ DECLARE was text := pg_get_viewdef('saga.steps_by_tenant'::regclass); becomes text "+
			":= replace(was, 'w.definition -> ''retry''::text', 'w.definition -> ''nothing''::text'); "+
			"BEGIN ASSERT was <> becomes, 'nothing is replaced'; EXECUTE 'CREATE OR REPLACE VIEW "+
			"saga.steps_by_tenant WITH (security_invoker = true) AS ' || becomes; END $do$"),
	after("S2-56, S2-72",
		"DO $do$ DECLARE was text := pg_get_viewdef('saga.steps_by_tenant'::regclass); becomes text "+
			":= replace(was, 'ARRAY[1, 3]', 'ARRAY[1]'); BEGIN ASSERT was <> becomes, 'nothing is "+
			"replaced'; EXECUTE 'CREATE OR REPLACE VIEW saga.steps_by_tenant WITH (security_invoker = "+
			"true) AS ' || becomes; END $do$"),
	after("S2-68",
		"DO $do$ DECLARE was text := pg_get_viewdef('saga.steps_by_tenant'::regclass); becomes text "+
			":= replace(was, 'ELSE 0', 'ELSE 1'); BEGIN ASSERT was <> becomes, 'nothing is replaced'; "+
			"EXECUTE 'CREATE OR REPLACE VIEW saga.steps_by_tenant WITH (security_invoker = true) AS ' || "+
			"becomes; END $do$"),
	after("S2-69",
		"DO $do$ DECLARE was text := pg_get_viewdef('saga.steps_by_tenant'::regclass); becomes text "+
			":= replace(was, '''RUNNING''::text) THEN 1', '''RUNNING''::text) THEN 0'); BEGIN ASSERT was "+
			"<> becomes, 'nothing is replaced'; EXECUTE 'CREATE OR REPLACE VIEW saga.steps_by_tenant "+
			"WITH (security_invoker = true) AS ' || becomes; END $do$"),
	after("S2-70",
		"DO $do$ DECLARE was text := pg_get_viewdef('saga.steps_by_tenant'::regclass); becomes text "+
			":= replace(was, '''SUCCESS''::text) THEN 2', '''SUCCESS''::text) THEN 1'); BEGIN ASSERT was "+
			"<> becomes, 'nothing is replaced'; EXECUTE 'CREATE OR REPLACE VIEW saga.steps_by_tenant "+
			"WITH (security_invoker = true) AS ' || becomes; END $do$"),
	after("S2-71",
		"DO $do$ DECLARE was text := pg_get_viewdef('saga.steps_by_tenant'::regclass); becomes text "+
			":= replace(was, 'ELSE 3', 'ELSE 1'); BEGIN ASSERT was <> becomes, 'nothing is replaced'; "+
			"EXECUTE 'CREATE OR REPLACE VIEW saga.steps_by_tenant WITH (security_invoker = true) AS ' || "+
			"becomes; END $do$"),
	after("S2-73",
		"DO $do$ DECLARE was text := pg_get_viewdef('saga.steps_by_tenant'::regclass); becomes text "+
			":= replace(was, 'THEN 5', 'THEN 4'); BEGIN ASSERT was <> becomes, 'nothing is replaced'; "+
			"EXECUTE 'CREATE OR REPLACE VIEW saga.steps_by_tenant WITH (security_invoker = true) AS ' || "+
			"becomes; END $do$"),
	after("S2-67, S2-02",
		"DO $do$ DECLARE was text := pg_get_viewdef('saga.steps_by_tenant'::regclass); becomes text "+
			":= replace(was, '(d.step -> ''metadata''::text)', '(d.step -> ''retry''::text)'); BEGIN "+
			"ASSERT was <> becomes, 'nothing is replaced'; EXECUTE 'CREATE OR REPLACE VIEW "+
			"saga.steps_by_tenant WITH (security_invoker = true) AS ' || becomes; END $do$"),
	after("S2-112, S2-80",
		"DO $do$ DECLARE was text := pg_get_viewdef('saga.steps_to_retry'::regclass); becomes text "+
			":= replace(was, 'step_failures > 0', 'step_failures >= 0'); BEGIN ASSERT was <> becomes, "+
			"'nothing is replaced'; EXECUTE 'CREATE OR REPLACE VIEW saga.steps_to_retry WITH "+
			"(security_invoker = true) AS ' || becomes; END $do$"),
	after("S2-93",
		"DO $do$ DECLARE was text := pg_get_functiondef('saga.event_metadata(uuid, uuid, "+
			"integer)'::regprocedure); becomes text := replace(was, 'coalesce(s.metadata, ''{}''::jsonb) "+
			"|| coalesce(w.def', 'coalesce(w.def'); BEGIN ASSERT was <> becomes, 'nothing is replaced'; "+
			"EXECUTE becomes; END $do$"),
	after("X1",
		"DO $do$ DECLARE was text := pg_get_functiondef('dlq.archive_batch(integer, integer, "+
			"integer)'::regprocedure); becomes text := replace(was, '      FROM moved m;', '      FROM "+
			"moved m WHERE m.seq % 2 = 0;'); BEGIN ASSERT was <> becomes, 'nothing is replaced'; EXECUTE "+
			"becomes; END $do$"),
	after("D-38",
		"DO $do$ DECLARE was text := pg_get_functiondef('dlq.archive_batch(integer, integer, "+
			"integer)'::regprocedure); becomes text := replace(was, 'WHERE m.status IN (''RESOLVED'', "+
			"''DEAD'')\n"+
			"           AND m.terminal_at <', 'WHERE coalesce(m.terminal_at, ''-infinity'') <'); BEGIN "+
			"ASSERT was <> becomes, 'nothing is replaced'; EXECUTE becomes; END $do$"),
	after("F41",
		"DO $do$ DECLARE was text := pg_get_functiondef('dlq.archive_batch(integer, integer, "+
			"integer)'::regprocedure); becomes text := replace(was, 'FOR UPDATE OF m SKIP LOCKED', 'FOR "+
			"UPDATE OF m NOWAIT'); BEGIN ASSERT was <> becomes, 'nothing is replaced'; EXECUTE becomes; "+
			"END $do$"),
	after("D-25, F42",
		"DO $do$ DECLARE was text := pg_get_functiondef('dlq.archive_batch(integer, integer, "+
			"integer)'::regprocedure); becomes text := replace(was, 'm.correlation_id, m.trace_id, "+
			"m.dedupe_key,\n           m.labels', ''''', m.trace_id, m.dedupe_key,\n"+
			"           m.labels'); BEGIN ASSERT was <> becomes, 'nothing is replaced'; EXECUTE becomes; "+
			"END $do$"),
	after("D-26",
		"DO $do$ DECLARE was text := pg_get_functiondef('dlq.archive_batch(integer, integer, "+
			"integer)'::regprocedure); becomes text := replace(was, 'FROM moved m;', 'FROM moved m WHERE m.id IN "+
			"(SELECT d.id FROM doomed d ORDER BY d.id LIMIT p_limit - 1);'); BEGIN ASSERT was <> becomes, "+
			"'nothing is replaced'; EXECUTE becomes; END $do$"),
	after("D-29, D-39",
		"DO $do$ DECLARE was text := pg_get_functiondef('dlq.archive_batch(integer, integer, "+
			"integer)'::regprocedure); becomes text := replace(was, 'THEN 3 ELSE 1 END', 'THEN 1 ELSE 1 "+
			"END'); BEGIN ASSERT was <> becomes, 'nothing is replaced'; EXECUTE becomes; END $do$"),
	after("X2",
		"DO $do$ DECLARE was text := pg_get_functiondef('dlq.archive_old_dlq_messages(integer, "+
			"integer)'::regprocedure); becomes text := replace(was, '        COMMIT;\n"+
			"', ''); BEGIN ASSERT was <> becomes, 'nothing is replaced'; EXECUTE becomes; END $do$"),
	after("D-27, D-31",
		"DO $do$ DECLARE was text := pg_get_functiondef('dlq.complete_message()'::regprocedure); "+
			"becomes text := replace(was, '    IF NEW.status = ''RETRYING'' THEN', '    IF NEW.status = "+
			"''PENDING'' THEN'); BEGIN ASSERT was <> becomes, 'nothing is replaced'; EXECUTE becomes; END $do$"),
	after("D-28, D-46",
		"DO $do$ DECLARE was text := pg_get_functiondef('dlq.complete_message()'::regprocedure); "+
			"becomes text := replace(was, 'NEW.retry_token := coalesce(NEW.retry_token, gen_random_uuid());\n"+
			"', ''); BEGIN ASSERT was <> becomes, 'nothing is replaced'; EXECUTE becomes; END $do$"),
	after("D-32, D-48",
		"DO $do$ DECLARE was text := pg_get_functiondef('dlq.complete_message()'::regprocedure); "+
			"becomes text := replace(was, '        NEW.retry_token := NULL;\n"+
			"', ''); BEGIN ASSERT was <> becomes, 'nothing is replaced'; EXECUTE becomes; END $do$"),
	after("D-34",
		"DO $do$ DECLARE was text := pg_get_functiondef('dlq.complete_message()'::regprocedure); "+
			"becomes text := replace(was, 'ELSE ''EXHAUSTED'' END', 'ELSE ''DISCARDED'' END'); BEGIN "+
			"ASSERT was <> becomes, 'nothing is replaced'; EXECUTE becomes; END $do$"),
	after("D-33, D-47",
		"DO $do$ DECLARE was text := pg_get_functiondef('dlq.complete_message()'::regprocedure); "+
			"becomes text := replace(was, 'WHEN ''RESOLVED'' THEN ''REDRIVEN''', 'WHEN ''RESOLVED'' THEN "+
			"''EXHAUSTED'''); BEGIN ASSERT was <> becomes, 'nothing is replaced'; EXECUTE becomes; END $do$"),
	after("D-49",
		"DO $do$ DECLARE was text := pg_get_functiondef('dlq.complete_message()'::regprocedure); "+
			"becomes text := replace(was, '        NEW.next_retry_at := NULL;\n"+
			"', '        NEW.next_retry_at := NULL;\n        NEW.original_topic := ''ended'';\n"+
			"'); BEGIN ASSERT was <> becomes, 'nothing is replaced'; EXECUTE becomes; END $do$"),
}
