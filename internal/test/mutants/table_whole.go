package mutants

// whole are of whole servers and of Kafka: the slow ones.
var whole = []Mutant{}
