package postgres

import (
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"
)

type integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32
}

// ScanOr returns a destination for Scan that reads a column into p, and NULL as nothing.
func ScanOr[V any](p *V, nothing V) any { return &scanOr[V]{p, nothing} }

// Scan implements sql.Scanner.
func (o *scanOr[V]) Scan(src any) error {
	if src == nil {
		*o.p = o.nothing
		return nil
	}
	var v sql.Null[V]
	err := v.Scan(src)
	*o.p = v.V
	return err
}

// Value implements driver.Valuer: the value nothing is written as NULL.
func (o *scanOr[V]) Value() (driver.Value, error) {
	if any(*o.p) == any(o.nothing) {
		return nil, nil //nolint:nilnil // that is NULL
	}
	return driver.DefaultParameterConverter.ConvertValue(*o.p)
}

// Read is a column that rows.Scan reads into dest and that inserts omit.
func Read[T any](name string, dest func(*T) any) Column[T] {
	return Column[T]{name: name, dest: dest, unwritten: true, unstored: true}
}

// UUID is an ID that is never NULL.
func UUID[T any](name string, at func(*T) *uuid.UUID) Column[T] {
	return Column[T]{
		name: name, travels: "uuid", write: func(c *BinaryColumn, r *T) { c.UUID(*at(r)) },
		dest: func(r *T) any { return at(r) },
	}
}

// UUIDOrZero is an ID that is NULL for the zero UUID.
func UUIDOrZero[T any](name string, at func(*T) *uuid.UUID) Column[T] {
	return Column[T]{
		name: name, null: true, travels: "uuid", write: func(c *BinaryColumn, r *T) { c.UUIDUnlessZero(*at(r)) },
		dest: func(r *T) any { return ScanOr(at(r), uuid.Nil) },
	}
}

// UUIDOrNil is an ID that is NULL for nil.
func UUIDOrNil[T any](name string, at func(*T) **uuid.UUID) Column[T] {
	return Column[T]{name: name, null: true, travels: "uuid", write: func(c *BinaryColumn, r *T) {
		if v := *at(r); v != nil {
			c.UUID(*v)
		} else {
			c.Null()
		}
	}, dest: func(r *T) any { return at(r) }, value: func(r *T) any {
		if v := *at(r); v != nil {
			return *v
		}
		return nil
	}}
}

// Text is a text that is never NULL.
func Text[T any, V ~string](name string, at func(*T) *V) Column[T] {
	return Column[T]{
		name: name, travels: "text", write: func(c *BinaryColumn, r *T) { c.Text(string(*at(r))) },
		dest: func(r *T) any { return at(r) },
	}
}

// TextOrEmpty is a text that is NULL for "".
func TextOrEmpty[T any, V ~string](name string, at func(*T) *V) Column[T] {
	return Column[T]{
		name: name, null: true, travels: "text", write: func(c *BinaryColumn, r *T) { c.TextUnlessEmpty(string(*at(r))) },
		dest: func(r *T) any { return ScanOr(at(r), "") },
	}
}

// TextOrNil is a text that is NULL for nil.
func TextOrNil[T any, V ~string](name string, at func(*T) **V) Column[T] {
	return Column[T]{name: name, null: true, travels: "text", write: func(c *BinaryColumn, r *T) {
		if v := *at(r); v != nil {
			c.Text(string(*v))
		} else {
			c.Null()
		}
	}, dest: func(r *T) any { return at(r) }}
}

// Int is an integer that is never NULL.
func Int[T any, V integer](name string, at func(*T) *V) Column[T] {
	return Column[T]{
		name: name, travels: "bigint", write: func(c *BinaryColumn, r *T) { c.Int(int64(*at(r))) },
		dest: func(r *T) any { return at(r) },
	}
}

// IntOr is an integer that is NULL for nothing.
func IntOr[T any, V integer](nothing V, name string, at func(*T) *V) Column[T] {
	return Column[T]{
		name: name, null: true, travels: "bigint",
		write: func(c *BinaryColumn, r *T) { c.intUnless(int64(*at(r)), int64(nothing)) },
		dest:  func(r *T) any { return ScanOr(at(r), nothing) },
	}
}

// IntOrNil is an integer that is NULL for nil.
func IntOrNil[T any, V integer](name string, at func(*T) **V) Column[T] {
	return Column[T]{name: name, null: true, travels: "bigint", write: func(c *BinaryColumn, r *T) {
		if v := *at(r); v != nil {
			c.Int(int64(*v))
		} else {
			c.Null()
		}
	}, dest: func(r *T) any { return at(r) }}
}

// Float is a number that is never NULL.
func Float[T any](name string, at func(*T) *float64) Column[T] {
	return Column[T]{
		name: name, travels: "float8", write: func(c *BinaryColumn, r *T) { c.floatOrNull(at(r)) },
		dest: func(r *T) any { return at(r) },
	}
}

// FloatOrNil is a number that is NULL for nil.
func FloatOrNil[T any](name string, at func(*T) **float64) Column[T] {
	return Column[T]{
		name: name, null: true, travels: "float8", write: func(c *BinaryColumn, r *T) { c.floatOrNull(*at(r)) },
		dest: func(r *T) any { return at(r) },
	}
}

// Bool is a boolean that is never NULL.
func Bool[T any](name string, at func(*T) *bool) Column[T] {
	return Column[T]{
		name: name, travels: "bool", write: func(c *BinaryColumn, r *T) { c.Bool(*at(r)) },
		dest: func(r *T) any { return at(r) },
	}
}

// BoolOrNil is a boolean that is NULL for nil.
func BoolOrNil[T any](name string, at func(*T) **bool) Column[T] {
	return Column[T]{
		name: name, null: true, travels: "bool", write: func(c *BinaryColumn, r *T) { c.boolOrNull(*at(r)) },
		dest: func(r *T) any { return at(r) },
	}
}

// Time is a time that is never NULL.
func Time[T any](name string, at func(*T) *time.Time) Column[T] {
	return Column[T]{
		name: name, travels: "timestamptz", write: func(c *BinaryColumn, r *T) { c.Time(*at(r)) },
		dest: func(r *T) any { return at(r) },
	}
}

// TimeOrZero is a time that is NULL for the zero time.
func TimeOrZero[T any](name string, at func(*T) *time.Time) Column[T] {
	value := func(r *T) any {
		if v := *at(r); !v.IsZero() {
			return v
		}
		return nil
	}
	return Column[T]{name: name, null: true, travels: "timestamptz", value: value, write: func(c *BinaryColumn, r *T) {
		if v := *at(r); v.IsZero() {
			c.Null()
		} else {
			c.Time(v)
		}
	}, dest: func(r *T) any { return ScanOr(at(r), time.Time{}) }}
}

// TimeOrNil is a time that is NULL for nil.
func TimeOrNil[T any](name string, at func(*T) **time.Time) Column[T] {
	return Column[T]{
		name: name, null: true, travels: "timestamptz", write: func(c *BinaryColumn, r *T) { c.TimeOrNull(*at(r)) },
		dest: func(r *T) any { return at(r) },
	}
}

// Bytes is a bytea that is NULL for nil.
func Bytes[T any](name string, at func(*T) *[]byte) Column[T] {
	return Column[T]{
		name: name, null: true, travels: "bytea", write: func(c *BinaryColumn, r *T) { c.BytesOrNull(*at(r)) },
		dest: func(r *T) any { return at(r) },
		value: func(r *T) any {
			if v := *at(r); v != nil {
				return v
			}
			return nil
		},
	}
}

// JSON is a jsonb value that is NULL for nil.
func JSON[T any](name string, at func(*T) *[]byte) Column[T] {
	return Column[T]{
		name: name, null: true, travels: "text", cast: "::jsonb", write: func(c *BinaryColumn, r *T) { c.JSON(*at(r)) },
		dest:  func(r *T) any { return at(r) },
		value: func(r *T) any { return NullText(*at(r)) },
	}
}

// Doc is a jsonb value that holds the JSON form of a Go value, and is NULL for a value whose JSON
// form is null. Rows with such a column are sent individually (Row), because a batch cannot report
// that a value has no JSON form.
func Doc[T, V any](name string, at func(*T) *V) Column[T] {
	return Column[T]{
		name: name, null: reflect.TypeFor[V]().Kind() == reflect.Pointer, travels: "text", cast: "::jsonb",
		write: func(*BinaryColumn, *T) {
			panic("a batch cannot contain the document " + name + ": store its rows one by one")
		},
		dest: func(r *T) any { return doc[V]{at(r)} },
	}
}

// OrMark is Doc for lists in which one damaged document must not hide the other rows: the value
// is left unchanged, and *mark is set. Callers must not act on such a row.
func OrMark[T, V any](name string, at func(*T) *V, mark func(*T) *bool) Column[T] {
	c := Doc(name, at)
	c.dest = func(r *T) any { return markedDoc[V]{doc[V]{at(r)}, mark(r)} }
	return c
}

type markedDoc[V any] struct {
	doc[V]
	damaged *bool
}

// Scan implements sql.Scanner.
func (d markedDoc[V]) Scan(src any) error {
	if d.doc.Scan(src) != nil {
		*d.damaged = true
	}
	return nil
}

type doc[V any] struct{ p *V }

// Scan implements sql.Scanner.
func (d doc[V]) Scan(src any) error {
	var v V
	if src != nil {
		var text sql.Null[[]byte]
		if err := text.Scan(src); err != nil {
			return err
		}
		if err := json.Unmarshal(text.V, &v); err != nil {
			return fmt.Errorf("stored document: %w", err)
		}
	}
	*d.p = v
	return nil
}

// Value implements driver.Valuer.
func (d doc[V]) Value() (driver.Value, error) {
	b, err := json.Marshal(d.p)
	if err != nil || string(b) == "null" {
		return nil, err
	}
	return string(b), nil
}

// UUIDsOrNil is a list of IDs that is NULL for nil.
func UUIDsOrNil[T any](name string, at func(*T) *[]uuid.UUID) Column[T] {
	value := func(r *T) any {
		if v := *at(r); v != nil {
			return pq.Array(v)
		}
		return nil
	}
	return Column[T]{
		name: name, null: true, travels: "text", cast: "::uuid[]", value: value,
		write: func(c *BinaryColumn, r *T) {
			if v := *at(r); v == nil {
				c.Null()
			} else {
				c.Text(TextArray(uuid.UUIDs(v).Strings()))
			}
		},
		dest: func(r *T) any { return pq.Array(at(r)) },
	}
}

// Texts is a list of texts that is never NULL.
func Texts[T any](name string, at func(*T) *[]string) Column[T] {
	return Column[T]{
		name: name, travels: "text", cast: "::text[]", write: func(c *BinaryColumn, r *T) { c.Text(TextArray(*at(r))) },
		dest:  func(r *T) any { return pq.Array(at(r)) },
		value: func(r *T) any { return ArrayOf(*at(r)) },
	}
}
