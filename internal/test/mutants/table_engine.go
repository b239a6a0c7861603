package mutants

// engine are of how sagas run.
var engine = []Mutant{}
