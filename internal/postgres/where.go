package postgres

import (
	"fmt"
	"strings"
)

// where gathers conditions and their parameters.
type where struct {
	conditions []string
	args       []any
	few        bool // other conditions leave few rows to look at
}

// add appends a condition in which each ? stands for the next argument.
func (w *where) add(condition string, args ...any) {
	for _, a := range args {
		w.args = append(w.args, a)
		condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(w.args)), 1)
	}
	w.conditions = append(w.conditions, condition)
}

func (w *where) text() string { return strings.Join(w.conditions, " AND ") }
