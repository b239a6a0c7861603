package postgres

import (
	"database/sql"

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
