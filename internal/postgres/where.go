package postgres

import (
	"fmt"
	"strings"
)

// Where collects conditions and their parameters.
type Where struct {
	Conditions []string
	Args       []any
	Few        bool // other conditions leave only a few rows to check
}

// Add appends a condition in which each ? stands for the next argument.
func (w *Where) Add(condition string, args ...any) {
	for _, a := range args {
		w.Args = append(w.Args, a)
		condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(w.Args)), 1)
	}
	w.Conditions = append(w.Conditions, condition)
}

// Prefix adds the condition that a text begins with prefix; "" adds none. The index for it is in
// byte order (text_pattern_ops). LIKE is unsuitable: characters of a prefix must not act as
// wildcards, and under row-level security only operators known not to leak (LEAKPROOF) may use an
// index.
func (w *Where) Prefix(text, prefix string) {
	if prefix == "" {
		return
	}
	w.Add(text+" ~>=~ ?", prefix)
	if next := AfterPrefix(prefix); next != "" {
		w.Add(text+" ~<~ ?", next)
	}
}

// AfterPrefix returns the first text in byte order that is greater than prefix and does not begin
// with it, "" if all greater texts begin with it. Bytes that cannot end UTF-8 text are skipped,
// because PostgreSQL would reject the text.
func AfterPrefix(prefix string) string {
	runes := []rune(prefix)
	for i := len(runes) - 1; i >= 0; i-- {
		next := runes[i] + 1
		if next == 0xD800 {
			next = 0xE000 // surrogates are not characters
		}
		if next <= 0x10FFFF {
			return string(append(runes[:i], next))
		}
	}
	return ""
}

// Text returns the conditions for a WHERE clause.
func (w *Where) Text() string { return strings.Join(w.Conditions, " AND ") }
