package mutants

// jobs are of job runs, their leader and workers.
var jobs = []Mutant{}
