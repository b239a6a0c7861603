package mutants

// whole are of whole servers and of Kafka: the slow ones.
var whole = []Mutant{
	{Rows: "S4-19", File: "db/db.go",
		Old: "`SELECT pg_try_advisory_lock($1)`, key)", New: "`SELECT $1::bigint IS NOT NULL`, key)"},
}
