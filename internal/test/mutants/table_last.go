package mutants

// last contains the mutants that break failovers, logins, event publication to brokers and
// campaigns.
var last = []Mutant{
	after("S2-85", "ALTER VIEW saga.saga_events RENAME event_type TO type"),
	after("S2-88", "ALTER TABLE saga.audit_events ALTER timestamp DROP DEFAULT"),
	{Rows: "S1-68", File: "db/adopt.go",
		Old: "\tif err != nil || !bereft {", New: "\tif err != nil || bereft {"},
	{Rows: "A-13", File: "api/worker/beat.go",
		Old: "\t\t\t\ts.confirm(ctx)\n", New: ""},
	{Rows: "J8", File: "internal/jobrun/scheduler/slots.go",
		Old: "value: spec.Value, tz: spec.Timezone,", New: "value: spec.Value,"},
	{Rows: "one-product 1", File: "internal/saga/letter.go",
		Old: "\tid := d.s.DeadLetter()\n\tif id == uuid.Nil {\n\t\treturn\n\t}\n\tn :=",
		New: "\tid := d.s.DeadLetter()\n\tif id != uuid.Nil {\n\t\treturn\n\t}\n\tn :="},
	{Rows: "one-product 6", File: "internal/event/publication/outbox.go",
		Old: "\tm.Topic, m.At = o.Topic, doc.Time\n", New: "\tm.At = doc.Time\n"},
	{Rows: "S2-128", File: "docs/operations.md",
		Old: "SELECT calls, round(mean_exec_time::numeric, 2) AS mean_ms",
		New: "SELECT calls, round(mean_time::numeric, 2) AS mean_ms"},
	{Rows: "F51", File: "api/worker/session.go",
		Old: "\th.renew(sent, lease)\n", New: "\th.renew(sent, 100*lease)\n"},
	{Rows: "S4-25", File: "internal/saga/sagadb/claim.go",
		Old: "WHERE lease_until <= now() AND id <> $1", New: "WHERE false AND id <> $1"},
	{Rows: "S2-44", File: "db/migrations/0267_sagas_over_time.sql",
		From: "-- +migrate Up",
		Old:  "date_trunc(span, e.created_at, 'UTC'), e.workflow_version, e.state,",
		New:  "date_trunc(span, e.created_at, 'UTC'), e.workflow_version, 3,"},
	{Rows: "A-15", File: "internal/ui/jobpages/worker_actions.go",
		Old: "name: \"undetach\", label: \"Reattach\"", New: "name: \"redetach\", label: \"Reattach\""},
	{Rows: "F58", File: "db/migrations.go",
		Old: "\t\t`LOCK TABLE saga.saga_states IN SHARE ROW EXCLUSIVE MODE`,\n" +
			"\t\t`LOCK TABLE saga.saga_step_logs IN ACCESS EXCLUSIVE MODE`,\n",
		New: "\t\t`LOCK TABLE saga.saga_step_logs IN ACCESS EXCLUSIVE MODE`,\n" +
			"\t\t`LOCK TABLE saga.saga_states IN SHARE ROW EXCLUSIVE MODE`,\n"},
	{Rows: "A-01", File: "internal/jobrun/jobapi/definitions_show.go",
		Old: "\tout.Spec, out.Event = showSpec(&d.Spec)\n",
		New: "\tout.Spec, out.Event = showSpec(&d.Spec)\n\tout.Spec.JitterMS = 0\n"},
}
