package postgres

import (
	"database/sql"
	"strings"

	"github.com/google/uuid"
	"github.com/lib/pq"
)

// Values as parameters of statements.

// nullIfZero is NULL for the zero id.
func nullIfZero(id uuid.UUID) uuid.NullUUID { return uuid.NullUUID{UUID: id, Valid: id != uuid.Nil} }

// nullIfEmpty is NULL for the empty text.
func nullIfEmpty(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

// nullText passes a JSON document as a parameter, NULL when nil.
func nullText(doc []byte) sql.NullString {
	return sql.NullString{String: string(doc), Valid: doc != nil}
}

// orNull turns a zero value into NULL.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// arrayOf passes texts as an array, which is empty, and not NULL, when there are none.
func arrayOf(texts []string) any {
	if texts == nil {
		texts = []string{}
	}
	return pq.Array(texts)
}

// textArray writes texts as PostgreSQL reads an array of them.
func textArray(of []string) string {
	if len(of) == 0 {
		return "{}"
	}
	v, err := pq.StringArray(of).Value()
	if err != nil { // it never has one
		return "{}"
	}
	return v.(string)
}

// quoted lists words of the rules, which hold nothing that needs quoting: written
// out, the planner knows what it is asked for. What the rules do not know is left
// out.
func quoted[T ~string](of []T) string {
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
