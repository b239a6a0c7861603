package postgres

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq/oid"
)

// column builds one array in PostgreSQL's binary form: a column of a batch,
// sent as one parameter and taken apart by unnest. By hand, because it is on
// the way of every transition, and pq.Array knows only text, which both sides
// would have to format and parse element by element. All elements are of one
// type; integers of any size go as bigint. Only the writers' connections send
// such a parameter as it is (pq.Config.BinaryParameters).
type column struct {
	of    oid.Oid // type of the elements; 0 while all are NULL
	n     uint32
	nulls uint32
	rows  int // about how many elements will follow; 0: not known
	b     []byte
}

// The head of a binary array: dimensions, whether it has NULLs, type of the
// elements, their number, index of the first.
const arrayHead = 5 * 4

// next opens the place of the next element, of so many bytes; nullSize for NULL.
func (c *column) next(size int) []byte {
	if len(c.b) == 0 {
		c.b = make([]byte, arrayHead, max(256, min(arrayHead+c.rows*(4+max(size, 0)), firstBytes)))
	}
	c.n++
	return binary.BigEndian.AppendUint32(c.b, uint32(size)) //nolint:gosec // nothing here is that long
}

const nullSize = -1

// maxSpare is how many bytes of a column are kept.
const maxSpare = 1 << 20

// firstBytes is how much memory a column of a batch of known length may begin with,
// if its first element is like the others.
const firstBytes = 64 << 10

// reset makes a column empty, and keeps its memory unless that is much.
func (c *column) reset() {
	if cap(c.b) > maxSpare {
		c.b = nil
	}
	*c = column{rows: c.rows, b: c.b[:min(len(c.b), arrayHead)]}
}

// parameter returns the finished array. Without any value the type of its
// elements is not known, and the text form needs none.
func (c *column) parameter() any {
	if c.n == c.nulls {
		return "{" + strings.TrimSuffix(strings.Repeat("NULL,", int(c.n)), ",") + "}"
	}
	for i, v := range [...]uint32{1, min(c.nulls, 1), uint32(c.of), c.n, 1} {
		binary.BigEndian.PutUint32(c.b[4*i:], v)
	}
	return c.b
}

func (c *column) null() {
	c.b = c.next(nullSize)
	c.nulls++
}

func (c *column) int(v int64) {
	c.of = oid.T_int8
	c.b = binary.BigEndian.AppendUint64(c.next(8), uint64(v)) //nolint:gosec // the same 64 bits
}

// int4 writes an integer of 32 bits, for what is stored as an array of such.
func (c *column) int4(v int32) {
	c.of = oid.T_int4
	c.b = binary.BigEndian.AppendUint32(c.next(4), uint32(v)) //nolint:gosec // the same 32 bits
}

// uniform tells whether all elements are the same.
func (c *column) uniform() bool {
	if c.nulls > 0 || c.n == 0 {
		return c.n == c.nulls
	}
	each := len(c.b) - arrayHead // of one element, if all are as long
	if each%int(c.n) != 0 {
		return false
	}
	each /= int(c.n)
	return bytes.Equal(c.b[arrayHead:len(c.b)-each], c.b[arrayHead+each:])
}

// first returns the first element of a column that is uniform, as a parameter of
// its own; nil: NULL.
func (c *column) first() any {
	if c.n == c.nulls {
		return nil
	}
	size := binary.BigEndian.Uint32(c.b[arrayHead:])
	return c.b[arrayHead+4:][:size:size]
}

// intUnless writes v, or NULL when it is what stands for nothing.
func (c *column) intUnless(v, nothing int64) {
	if v == nothing {
		c.null()
		return
	}
	c.int(v)
}

func (c *column) intOrNull(v *int64) {
	if v == nil {
		c.null()
		return
	}
	c.int(*v)
}

func (c *column) floatOrNull(v *float64) {
	if v == nil {
		c.null()
		return
	}
	c.of = oid.T_float8
	c.b = binary.BigEndian.AppendUint64(c.next(8), math.Float64bits(*v))
}

func (c *column) bool(v bool) {
	c.of = oid.T_bool
	b := byte(0)
	if v {
		b = 1
	}
	c.b = append(c.next(1), b)
}

func (c *column) boolOrNull(v *bool) {
	if v == nil {
		c.null()
		return
	}
	c.bool(*v)
}

func (c *column) uuid(v uuid.UUID) {
	c.of = oid.T_uuid
	c.b = append(c.next(len(v)), v[:]...)
}

// uuidUnlessZero writes v, or NULL when it is zero.
func (c *column) uuidUnlessZero(v uuid.UUID) {
	if v == uuid.Nil {
		c.null()
		return
	}
	c.uuid(v)
}

// postgresEpoch is PostgreSQL's zero of time, 2000-01-01, in Unix microseconds.
const postgresEpoch = 946_684_800_000_000

// time writes t at PostgreSQL's precision, which is a microsecond.
func (c *column) time(t time.Time) {
	c.of = oid.T_timestamptz
	c.b = binary.BigEndian.AppendUint64(c.next(8), uint64(t.UnixMicro()-postgresEpoch)) //nolint:gosec // the same 64 bits
}

func (c *column) timeOrNull(t *time.Time) {
	if t == nil {
		c.null()
		return
	}
	c.time(*t)
}

func (c *column) bytes(v []byte) {
	c.of = oid.T_bytea
	c.b = append(c.next(len(v)), v...)
}

// bytesOrNull writes v, NULL when it is nil.
func (c *column) bytesOrNull(v []byte) {
	if v == nil {
		c.null()
		return
	}
	c.bytes(v)
}

func (c *column) text(v string) {
	c.of = oid.T_text
	c.b = append(c.next(len(v)), v...)
}

// textUnlessEmpty writes v, or NULL when it is "".
func (c *column) textUnlessEmpty(v string) {
	if v == "" {
		c.null()
		return
	}
	c.text(v)
}

func (c *column) textOrNull(v *string) {
	if v == nil {
		c.null()
		return
	}
	c.text(*v)
}

// json writes a JSON text, NULL when nil.
func (c *column) json(v []byte) {
	if v == nil {
		c.null()
		return
	}
	c.of = oid.T_text
	c.b = append(c.next(len(v)), v...)
}

// wireColumn is a column of which a batch's values travel as one array.
type wireColumn struct{ name, typ string }

// arrays is a table of such columns, which are a statement's parameters.
type arrays struct{ names, values []string }

// add appends columns whose parameters are numbered from first on, and returns the
// number after them.
func (a *arrays) add(first int, columns ...wireColumn) (next int) {
	for i, c := range columns {
		a.names, a.values = append(a.names, c.name), append(a.values, fmt.Sprintf("$%d::%s[]", first+i, c.typ))
	}
	return first + len(columns)
}

func (a *arrays) as(name string) string {
	return "unnest(" + strings.Join(a.values, ", ") + ") AS " + name + " (" + strings.Join(a.names, ", ") + ")"
}

// numbered is as with each row's place in the batch as column n, from 1 on.
func (a *arrays) numbered(name string) string {
	return "unnest(" + strings.Join(a.values, ", ") + ") WITH ORDINALITY AS " + name + " (" + strings.Join(a.names, ", ") + ", n)"
}

// parameters turns columns into a statement's arguments.
func parameters(lists ...[]column) []any {
	n := 0
	for _, columns := range lists {
		n += len(columns)
	}
	args := make([]any, 0, n)
	for _, columns := range lists {
		for i := range columns {
			args = append(args, columns[i].parameter())
		}
	}
	return args
}
