package mutants

// parts are of PostgreSQL, logs, letters, events and their like.
var parts = []Mutant{
	{Rows: "API-11, T6", File: "internal/dlq/redrive_state.go",
		Old: "\t\tif actor == r.Actor {", New: "\t\tif actor == \"\" {"},
	{Rows: "one-product 10", File: "internal/dlq/routes.go",
		Old: "\t\treturn fault.New(fault.Unavailable, CodeNoKafka, \"%s\", r)",
		New: "\t\treturn fault.New(fault.Invalid, CodeTarget, \"%s\", r)"},
}
