package postgres

import (
	"database/sql"
	"reflect"
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

// Literals returns values of the rules, words (letters and _) or numbers, as a list of SQL literals: the planner
// estimates literals better than parameters, and the predicates of partial indexes have them. Any other word is left
// out; without values the list is NULL, which equals nothing.
func Literals[T ~string | ~int16](values []T) string {
	var out []string
	for _, v := range values {
		switch v := reflect.ValueOf(v); {
		case v.CanInt():
			out = append(out, strconv.FormatInt(v.Int(), 10))
		case isWord(v.String()):
			out = append(out, "'"+v.String()+"'")
		}
	}
	if out == nil {
		return "NULL"
	}
	return strings.Join(out, ", ")
}

func isWord(s string) bool {
	return strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_") == ""
}

// Among is the condition, to be written after a column, that this holds one of values of the rules:
// " = 'FAILED'" or " IN (1, 2)"; without values it is true of no row.
func Among[T ~string | ~int16](values []T) string {
	if len(values) == 1 {
		return " = " + Literals(values)
	}
	return " IN (" + Literals(values) + ")"
}
