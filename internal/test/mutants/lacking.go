package mutants

// Lacking are the rows that have no mutant yet. The list only ever gets shorter.
var Lacking = []string{
	"API-14", "I0", "I2", "I6", "I8", "D1", "D2", "D4", "D7", "J4", "3.4", "F05", "F29", "F34", "F35", "F36", "F37",
	"F38", "F59", "F62", "T1", "T2", "T21", "one-product 9", "X16", "X34", "S1-01", "S1-64", "S2-04", "S2-97",
	"S2-118", "S2-132", "J-01", "A-08", "A-10",
}
