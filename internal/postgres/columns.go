package postgres

import (
	"encoding/hex"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
)

// column builds one PostgreSQL array literal: a column of a batch, sent as one
// parameter and taken apart by unnest. By hand, because it is on the way of
// every transition, and pq.Array reflects on each element.
type column struct{ b []byte }

// next opens the place of the next element.
func (c *column) next() []byte {
	if len(c.b) == 0 {
		return append(c.b, '{')
	}
	return append(c.b, ',')
}

// String returns the finished literal.
func (c *column) String() string {
	if len(c.b) == 0 {
		return "{}"
	}
	return string(append(c.b, '}'))
}

func (c *column) null() { c.b = append(c.next(), "NULL"...) }

func (c *column) int(v int64) { c.b = strconv.AppendInt(c.next(), v, 10) }

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

func (c *column) bool(v bool) {
	if v {
		c.b = append(c.next(), 't')
	} else {
		c.b = append(c.next(), 'f')
	}
}

func (c *column) boolOrNull(v *bool) {
	if v == nil {
		c.null()
		return
	}
	c.bool(*v)
}

func (c *column) uuid(v uuid.UUID) {
	var text [36]byte
	hex.Encode(text[:8], v[:4])
	hex.Encode(text[9:13], v[4:6])
	hex.Encode(text[14:18], v[6:8])
	hex.Encode(text[19:23], v[8:10])
	hex.Encode(text[24:], v[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	c.b = append(c.next(), text[:]...)
}

// time writes t at PostgreSQL's precision, which is a microsecond.
func (c *column) time(t time.Time) {
	c.b = t.UTC().AppendFormat(append(c.next(), '"'), "2006-01-02 15:04:05.000000Z07:00")
	c.b = append(c.b, '"')
}

func (c *column) timeOrNull(t *time.Time) {
	if t == nil {
		c.null()
		return
	}
	c.time(*t)
}

// hex writes bytes.
func (c *column) hex(v []byte) {
	c.b = append(c.next(), `"\\x`...)
	c.b = append(hex.AppendEncode(c.b, v), '"')
}

// text writes v quoted, so that it may hold anything.
func (c *column) text(v string) { quote(c, v) }

// textUnlessEmpty writes v, or NULL when it is "".
func (c *column) textUnlessEmpty(v string) {
	if v == "" {
		c.null()
		return
	}
	quote(c, v)
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
	quote(c, v)
}

// errorOrNull writes a saga's error as JSON.
func (c *column) errorOrNull(e *saga.Error) error {
	if e == nil {
		c.null()
		return nil
	}
	doc, err := marshalError(e)
	c.json(doc)
	return err
}

func quote[T string | []byte](c *column, v T) {
	b := append(c.next(), '"')
	for i := range len(v) {
		if v[i] == '"' || v[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, v[i])
	}
	c.b = append(b, '"')
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
			args = append(args, columns[i].String())
		}
	}
	return args
}
