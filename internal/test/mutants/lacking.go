package mutants

// Lacking are the rows that have no mutant yet. The list only ever gets shorter.
var Lacking = []string{
	"API-14", "I0", "I2", "I6", "I8", "I13", "D1", "D2", "D4", "D7", "J4", "J8", "O5", "O6", "3.4", "F05",
	"F29", "F34", "F35", "F36", "F37", "F38", "F59", "F60", "F62", "T1", "T2", "T8", "T18", "T21",
	"one-product 3", "one-product 9", "X8", "X16", "X34", "S1-01", "S1-64", "S2-01", "S2-04", "S2-42", "S2-97",
	"S2-108", "S2-116", "S2-118", "S2-132", "J-01", "A-08", "A-10",
}
