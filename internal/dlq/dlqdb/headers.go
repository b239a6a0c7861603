package dlqdb

import (
	"encoding/binary"
	"errors"

	"github.com/skald-saga/skald/internal/dlq"
)

// Headers are stored as bytes. Each header consists of the length of its name, the name, the length
// of its value plus one, and the value; a length of 0 means no value. Lengths are varints.

// packHeaders returns the stored form of headers, or nil if there are none.
func packHeaders(headers []dlq.Header) []byte {
	if headers == nil {
		return nil
	}
	b := []byte{} // an edit may leave an empty list, which differs from keeping the original headers
	for _, h := range headers {
		b = appendHeader(b, h)
	}
	return b
}

// appendHeader appends one header. The encoding of a single header is a substring of the encoding
// of all headers, so that a list can search for it.
func appendHeader(b []byte, h dlq.Header) []byte {
	b = binary.AppendUvarint(b, uint64(len(h.Name)))
	b = append(b, h.Name...)
	if h.Value == nil {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(h.Value))+1)
	return append(b, h.Value...)
}

var errHeaders = errors.New("stored headers are truncated")

// unpackHeaders decodes what packHeaders wrote.
func unpackHeaders(b []byte) ([]dlq.Header, error) {
	var out []dlq.Header
	if b != nil {
		out = []dlq.Header{}
	}
	for len(b) > 0 {
		var h dlq.Header
		name, rest, ok := cut(b, 0)
		if !ok {
			return nil, errHeaders
		}
		h.Name = string(name)
		if h.Value, b, ok = cut(rest, 1); !ok {
			return nil, errHeaders
		}
		out = append(out, h)
	}
	return out, nil
}

// cut takes one length-prefixed piece from b. It subtracts more from the length; if the length is
// smaller than more, there is no piece and cut returns nil.
func cut(b []byte, more uint64) (piece, rest []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 {
		return nil, nil, false
	}
	b = b[n:]
	if size < more {
		return nil, b, true
	}
	if size -= more; size > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:size:size], b[size:], true
}
