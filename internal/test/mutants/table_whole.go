package mutants

// whole contains the mutants that break whole servers and Kafka: these are slow.
var whole = []Mutant{
	{Rows: "F06", File: "internal/saga/sagadb/create.go",
		Old: "\tresults := make([]saga.CreateResult, len(batch))\n",
		New: "\tresults := make([]saga.CreateResult, len(batch))\n" +
			"\tif tx, err := st.db.Write.BeginTxx(context.Background(), nil); err == nil {\n" +
			"\t\ttime.AfterFunc(time.Minute, func() { _ = tx.Rollback() })\n\t}\n"},
	{Rows: "O6, T8", File: "internal/postgres/condition.go",
		Old: "       current_setting('full_page_writes') = 'off',",
		New: "       current_setting('full_page_writes') = 'never',"},
	{Rows: "A-12", File: "internal/jobrun/jobworker/jobworker.go",
		Old: "f.LeaderEpoch == s.w.epoch {", New: "f.LeaderEpoch <= s.w.epoch {"},
	{Rows: "F66, S1-66", File: "internal/saga/call.go",
		Old: "\tif reruns > 0 { //",
		New: "\tc.Key += fmt.Sprintf(\"-%d\", r.LeaseEpoch)\n\tif reruns > 0 { //"},
	{Rows: "one-product 7", File: "internal/audit/timelinedb/timelines.go",
		Old: "FROM sagas s JOIN jobs.job_runs r ON r.tenant_id = @tenant AND r.saga_id = s.id WHERE @runs",
		New: "FROM sagas s JOIN jobs.job_runs r ON r.tenant_id = @tenant AND r.saga_id = s.tenant_id WHERE @runs"},
	{Rows: "one-product 5", File: "internal/jobrun/builtin.go",
		Old: "\t{SystemInvariants, every(\"1h\", \"checks the invariants, and fails if any of them is violated\")},\n",
		New: ""},
	{Rows: "O1, S4-19", File: "db/db.go",
		Old: "`SELECT pg_try_advisory_lock($1)`, key)", New: "`SELECT $1::bigint IS NOT NULL`, key)"},
	{Rows: "T18", File: "internal/egress/tls.go",
		Old: "\t\tc.Certificates = []tls.Certificate{cert}\n", New: "\t\t_ = cert\n"},
	{Rows: "API-21", File: "internal/httpapi/keep.go",
		Old: "\t\tcase prior != nil:\n\t\t\treplay(w, prior)\n\t\t\treturn\n",
		New: "\t\tcase prior != nil && prior.Body == nil:\n\t\t\treplay(w, prior)\n\t\t\treturn\n"},
	{Rows: "T20", File: "internal/jobrun/workerapi/claim.go",
		Old: "\tif err := httpkit.RequestOf(ctx).Who.RequireQueues(k.Queues); err != nil {",
		New: "\tif err := httpkit.RequestOf(ctx).Who.RequireQueues(nil); err != nil {"},
	{Rows: "O5", File: "internal/app/watchdog.go",
		Old: "return l.Vital });", New: "return !l.Vital });"},
}
