package mutants

// last are of failovers, logins, events to brokers and campaigns.
var last = []Mutant{
	{Rows: "S1-68", File: "db/adopt.go",
		Old: "\tif err != nil || !bereft {", New: "\tif err != nil || bereft {"},
	{Rows: "one-product 1", File: "internal/saga/letter.go",
		Old: "\tid := d.s.DeadLetter()\n\tif id == uuid.Nil {\n\t\treturn\n\t}\n\tn :=",
		New: "\tid := d.s.DeadLetter()\n\tif id != uuid.Nil {\n\t\treturn\n\t}\n\tn :="},
	{Rows: "F51", File: "api/worker/session.go",
		Old: "\th.renew(sent, lease)\n", New: "\th.renew(sent, 100*lease)\n"},
}
