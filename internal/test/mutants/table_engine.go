package mutants

// engine are of how sagas run.
var engine = []Mutant{
	{Rows: "S1-52", File: "internal/saga/engine/drive.go",
		Old: "\t\tcase mine:\n\t\t\treturn redecide\n", New: "\t\tcase mine:\n\t\t\treturn stored\n"},
	{Rows: "F18", File: "internal/saga/run.go",
		Old: "fmt.Sprintf(\"%s/%s/%s\", r.ID, step.Name, word)", New: "fmt.Sprintf(\"%s/%s\", r.ID, word)"},
	{Rows: "O3", File: "internal/saga/engine/drive.go",
		Old: "\t\treturn func() { d.s.waitUntil(ref, *due) }\n",
		New: "\t\treturn func() {\n\t\t\tgo time.Sleep(time.Until(*due))\n\t\t\td.s.waitUntil(ref, *due)\n" +
			"\t\t}\n"},
	{Rows: "F24", File: "internal/saga/apply.go",
		Old: "\tcase d.s.EndCause != nil: // a flag was committed first; the outcome is kept and undone\n",
		New: "\tcase d.s.EndCause != nil && k+1 < d.s.TotalSteps: // a flag was committed first\n"},
}
