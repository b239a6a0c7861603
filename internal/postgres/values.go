package postgres

import (
	"database/sql"
	"strings"

	"github.com/google/uuid"
	"github.com/lib/pq"
)

// Values as parameters of statements.

// NullIfZero is NULL for the zero id.
func NullIfZero(id uuid.UUID) uuid.NullUUID { return uuid.NullUUID{UUID: id, Valid: id != uuid.Nil} }

// NullText passes a JSON document as a parameter, NULL when nil.
func NullText(doc []byte) sql.NullString {
	return sql.NullString{String: string(doc), Valid: doc != nil}
}

// NilIfZero turns a zero value into NULL.
func NilIfZero[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// ArrayOf passes texts as an array, which is empty, and not NULL, when there are none.
func ArrayOf(texts []string) any {
	if texts == nil {
		texts = []string{}
	}
	return pq.Array(texts)
}

// TextArray writes texts as PostgreSQL reads an array of them.
func TextArray(of []string) string {
	if len(of) == 0 {
		return "{}"
	}
	v, err := pq.StringArray(of).Value()
	if err != nil { // it never has one
		return "{}"
	}
	return v.(string)
}

// QuotedList lists words of the rules, which hold nothing that needs quoting: written
// out, the planner knows what it is asked for. What the rules do not know is left
// out.
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
