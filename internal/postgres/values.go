package postgres

import (
	"database/sql"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/lib/pq"
)

// This file converts Go values to parameters of statements.

// NullIfZero returns id, NULL for the zero id.
func NullIfZero(id uuid.UUID) uuid.NullUUID { return uuid.NullUUID{UUID: id, Valid: id != uuid.Nil} }

// NullText passes a JSON document as a parameter, NULL when nil.
func NullText(doc []byte) sql.NullString {
	return sql.NullString{String: string(doc), Valid: doc != nil}
}

// NilIfZero returns a pointer to v, nil (NULL) for the zero value.
func NilIfZero[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// ArrayOf returns texts as an array parameter: empty, not NULL, when there are none.
func ArrayOf(texts []string) any {
	if texts == nil {
		texts = []string{}
	}
	return pq.Array(texts)
}

// TextArray returns texts in the text form of a PostgreSQL array.
func TextArray(of []string) string {
	if len(of) == 0 {
		return "{}"
	}
	v, err := pq.StringArray(of).Value()
	if err != nil { // it never fails
		return "{}"
	}
	return v.(string)
}

// QuotedList returns constants of the rules (capitals and _) as a list of SQL literals, which
// the planner estimates better than parameters. Other words are omitted.
func QuotedList[T ~string](of []T) string {
	var out []string
	for _, w := range of {
		if strings.Trim(string(w), "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == "" {
			out = append(out, "'"+string(w)+"'")
		}
	}
	if out == nil {
		return "NULL"
	}
	return strings.Join(out, ", ")
}

// NumberList lists the values of a type of small numbers that match, for IN.
func NumberList[T ~int16](values []T, match func(T) bool) string {
	var numbers []string
	for _, v := range values {
		if match(v) {
			numbers = append(numbers, strconv.Itoa(int(v)))
		}
	}
	return strings.Join(numbers, ", ")
}
