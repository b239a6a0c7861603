package mutants

// rest are of trails, records, pages of lists, bulks and workers.
var rest = []Mutant{}
