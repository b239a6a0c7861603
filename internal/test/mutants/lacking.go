package mutants

// Lacking are the rows that have no mutant yet. The list only ever gets shorter.
var Lacking = []string{
	"I0", "I2", "I8", "D2", "D4", "J4", "3.4", "F05", "F37", "F59", "S1-01", "S2-118", "S2-132", "J-01",
}
