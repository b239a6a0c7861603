package mutants

// Lacking are the rows that have no mutant yet. The list only ever gets shorter.
var Lacking = []string{
	"D4", "J4", "J-01",
}
