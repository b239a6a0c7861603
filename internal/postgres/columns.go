package postgres

import (
	"bytes"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq/oid"
)

// BinaryColumn builds an array in PostgreSQL's binary format: a column of a batch, which is sent as
// one parameter and expanded by unnest. It is hand-written because every transition uses it, and
// pq.Array supports only the text format, which both sides would have to format and parse element
// by element. All elements have the same type; integers of any size are sent as bigint. Only the
// writers' connections take such a parameter (binaryArray).
type BinaryColumn struct {
	of    oid.Oid // type of the elements; 0 while all are NULL
	N     uint32
	nulls uint32
	rows  int // expected number of further elements; 0: unknown
	b     []byte
}

// BinaryColumnOf returns an empty column with room for about this many elements.
func BinaryColumnOf(elements int) BinaryColumn { return BinaryColumn{rows: elements} }

// The header of a binary array: the number of dimensions, whether there are NULLs, the type of the
// elements, their number, and the index of the first.
const arrayHead = 5 * 4

// next appends the header of the next element, which has size bytes; nullSize means NULL.
func (c *BinaryColumn) next(size int) []byte {
	if len(c.b) == 0 {
		c.b = make([]byte, arrayHead, max(256, min(arrayHead+c.rows*(4+max(size, 0)), firstBytes)))
	}
	c.N++
	return binary.BigEndian.AppendUint32(c.b, uint32(size)) //nolint:gosec // no column here is that long
}

const nullSize = -1

// firstBytes limits the first allocation of a column of known length, which assumes that all
// elements are as large as the first.
const firstBytes = 64 << 10

// Parameter returns the finished array. If all elements are NULL, their type is unknown, so the
// array is sent as text, which does not need a type.
func (c *BinaryColumn) Parameter() any {
	if c.N == c.nulls {
		return "{" + strings.TrimSuffix(strings.Repeat("NULL,", int(c.N)), ",") + "}"
	}
	for i, v := range [...]uint32{1, min(c.nulls, 1), uint32(c.of), c.N, 1} {
		binary.BigEndian.PutUint32(c.b[4*i:], v)
	}
	return binaryArray(c.b)
}

// binaryArray is a parameter in binary form. Only the writers' connections send such parameters
// (pq.Config.BinaryParameters); all others reject it instead of passing it as text that the server
// cannot read.
type binaryArray []byte

// BinaryValue implements lib/pq's interface for connections with binary parameters.
func (a binaryArray) BinaryValue() ([]byte, error) { return a, nil }

// Value implements driver.Valuer, which all other connections use.
func (binaryArray) Value() (driver.Value, error) { return nil, errNotBinary }

var errNotBinary = errors.New("a batch can only be sent on a writer's connection: run this statement in InWrite or with QueryWrite")

// Null adds NULL.
func (c *BinaryColumn) Null() {
	c.b = c.next(nullSize)
	c.nulls++
}

// Int adds a bigint.
func (c *BinaryColumn) Int(v int64) {
	c.of = oid.T_int8
	c.b = binary.BigEndian.AppendUint64(c.next(8), uint64(v)) //nolint:gosec // the same 64 bits
}

// Int4 adds a 32-bit integer, for values that are stored as an integer[].
func (c *BinaryColumn) Int4(v int32) {
	c.of = oid.T_int4
	c.b = binary.BigEndian.AppendUint32(c.next(4), uint32(v)) //nolint:gosec // the same 32 bits
}

// uniform reports whether all elements are the same.
func (c *BinaryColumn) uniform() bool {
	if c.nulls > 0 || c.N == 0 {
		return c.N == c.nulls
	}
	all := c.b[arrayHead:]
	each := 4 + int(binary.BigEndian.Uint32(all)) // length of the first element, with its size prefix
	return len(all) == each*int(c.N) && bytes.Equal(all[:len(all)-each], all[each:])
}

// first returns the first element of a uniform column as a single parameter; nil means NULL.
func (c *BinaryColumn) first() any {
	if c.N == c.nulls {
		return nil
	}
	size := binary.BigEndian.Uint32(c.b[arrayHead:])
	return binaryArray(c.b[arrayHead+4:][:size:size])
}

// intUnless adds v, or NULL if it equals nothing.
func (c *BinaryColumn) intUnless(v, nothing int64) {
	if v == nothing {
		c.Null()
		return
	}
	c.Int(v)
}

func (c *BinaryColumn) floatOrNull(v *float64) {
	if v == nil {
		c.Null()
		return
	}
	c.of = oid.T_float8
	c.b = binary.BigEndian.AppendUint64(c.next(8), math.Float64bits(*v))
}

// Bool adds a boolean.
func (c *BinaryColumn) Bool(v bool) {
	c.of = oid.T_bool
	b := byte(0)
	if v {
		b = 1
	}
	c.b = append(c.next(1), b)
}

func (c *BinaryColumn) boolOrNull(v *bool) {
	if v == nil {
		c.Null()
		return
	}
	c.Bool(*v)
}

// UUID adds an ID.
func (c *BinaryColumn) UUID(v uuid.UUID) {
	c.of = oid.T_uuid
	c.b = append(c.next(len(v)), v[:]...)
}

// UUIDUnlessZero adds v, or NULL if it is zero.
func (c *BinaryColumn) UUIDUnlessZero(v uuid.UUID) {
	if v == uuid.Nil {
		c.Null()
		return
	}
	c.UUID(v)
}

// postgresEpoch is the zero of PostgreSQL's timestamps, 2000-01-01, in Unix microseconds.
const postgresEpoch = 946_684_800_000_000

// Time adds t at PostgreSQL's precision, one microsecond.
func (c *BinaryColumn) Time(t time.Time) {
	c.of = oid.T_timestamptz
	c.b = binary.BigEndian.AppendUint64(c.next(8), uint64(t.UnixMicro()-postgresEpoch)) //nolint:gosec // the same 64 bits
}

// TimeOrNull adds a time, or NULL if it is nil.
func (c *BinaryColumn) TimeOrNull(t *time.Time) {
	if t == nil {
		c.Null()
		return
	}
	c.Time(*t)
}

func (c *BinaryColumn) bytes(v []byte) {
	c.of = oid.T_bytea
	c.b = append(c.next(len(v)), v...)
}

// BytesOrNull adds v, or NULL if it is nil.
func (c *BinaryColumn) BytesOrNull(v []byte) {
	if v == nil {
		c.Null()
		return
	}
	c.bytes(v)
}

// Text adds a text.
func (c *BinaryColumn) Text(v string) {
	c.of = oid.T_text
	c.b = append(c.next(len(v)), v...)
}

// TextUnlessEmpty adds v, or NULL if it is "".
func (c *BinaryColumn) TextUnlessEmpty(v string) {
	if v == "" {
		c.Null()
		return
	}
	c.Text(v)
}

// JSON adds a JSON text, or NULL if it is nil.
func (c *BinaryColumn) JSON(v []byte) {
	if v == nil {
		c.Null()
		return
	}
	c.of = oid.T_text
	c.b = append(c.next(len(v)), v...)
}
