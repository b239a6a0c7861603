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

// NullIfZero returns id, or NULL for the zero ID.
func NullIfZero(id uuid.UUID) uuid.NullUUID { return uuid.NullUUID{UUID: id, Valid: id != uuid.Nil} }

// NullText returns a JSON document as a parameter, NULL for nil.
func NullText(doc []byte) sql.NullString {
	return sql.NullString{String: string(doc), Valid: doc != nil}
}

// NilIfZero returns a pointer to v, or nil (NULL) for the zero value.
func NilIfZero[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// ArrayOf returns texts as an array parameter. Without texts, it is empty rather than NULL.
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
	if err != nil { // this never fails
		return "{}"
	}
	return v.(string)
}

// Literals returns words (of letters and _) or numbers that the rules define as a list of SQL
// literals. The planner estimates literals better than parameters, and can match them with the
// predicates of partial indexes. Any other word is left out; without values, the list is NULL,
// which equals nothing.
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

// Among returns the condition, to be appended to a column, that the column has one of the values: "
// = 'FAILED'" or " IN (1, 2)". Without values, it is true for no row.
func Among[T ~string | ~int16](values []T) string {
	if len(values) == 1 {
		return " = " + Literals(values)
	}
	return " IN (" + Literals(values) + ")"
}
