package mutants

// parts are of PostgreSQL, logs, letters, events and their like.
var parts = []Mutant{}
