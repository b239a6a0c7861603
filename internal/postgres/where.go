package postgres

import (
	"fmt"
	"strings"
)

// Where gathers conditions and their parameters.
type Where struct {
	Conditions []string
	Args       []any
	Few        bool // other conditions leave few rows to examine
}

// Add appends a condition in which each ? stands for the next argument.
func (w *Where) Add(condition string, args ...any) {
	for _, a := range args {
		w.Args = append(w.Args, a)
		condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(w.Args)), 1)
	}
	w.Conditions = append(w.Conditions, condition)
}

// Text returns the conditions, for WHERE.
func (w *Where) Text() string { return strings.Join(w.Conditions, " AND ") }
