package mutants

// edges are of the API.
var edges = []Mutant{}
