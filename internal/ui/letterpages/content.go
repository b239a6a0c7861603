package letterpages

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/skald-saga/skald/api/client"
)

// content is the content of a letter or of a revision in one of the views.
type content struct {
	Encoding string // json, text or binary; empty: there is no payload
	JSON     json.RawMessage
	Text     string
	Bytes    []byte // exactly as stored; nil if the visitor may not see them
	Hidden   bool
	Magic    string // the format that the first bytes indicate
	Hex      []hexLine
	From     int // offset of the hex view
	Earlier  int // offset of the previous part; -1: this is the first part
	Later    int // offset of the next part; 0: this is the last part
	Cut      bool
}

const (
	hexPart = 64 << 10  // bytes in one part of the hex view
	shown   = 256 << 10 // bytes of JSON or text shown on a page
)

// contentOf reads a payload as returned by the API, which is a value, bytes, or both.
func contentOf(value json.RawMessage, inBase64 *string, encoding *client.DeadLetterEncoding) content {
	c := content{JSON: value, Earlier: -1}
	if encoding != nil {
		c.Encoding = string(*encoding)
	}
	if inBase64 != nil {
		c.Bytes, c.Hidden = decoded(*inBase64)
	}
	var text string
	isText := len(value) > 0 && json.Unmarshal(value, &text) == nil
	switch {
	case c.Encoding == "text":
		c.Text = text
		if c.Bytes == nil && !c.Hidden {
			c.Bytes = []byte(text)
		}
	case c.Encoding == "json" && isText && text == hidden:
		c.Hidden = true
	case c.Encoding == "json" && c.Bytes == nil && !c.Hidden:
		c.Bytes = value
	}
	if c.Encoding == "text" && text == hidden && len(c.Bytes) != len(hidden) {
		c.Hidden = true
	}
	c.Magic = magic(c.Bytes)
	c.Text, c.Cut = cut(c.Text)
	return c
}

// hidden is what the API returns in place of content that the visitor may not see.
const hidden = "***"

func decoded(inBase64 string) (raw []byte, isHidden bool) {
	raw, err := base64.StdEncoding.DecodeString(inBase64)
	return raw, err != nil
}

func cut(text string) (string, bool) {
	if len(text) <= shown {
		return text, false
	}
	end := shown
	for end > shown-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end], true
}

// Beginning returns the first part of the JSON as text.
func (c content) Beginning() string {
	text, _ := cut(string(c.JSON))
	return text
}

// hexLine shows sixteen bytes.
type hexLine struct{ Offset, Hex, ASCII string }

// hex fills the part of the hex view that begins at an offset.
func (c *content) hex(from int) {
	if from < 0 || from >= len(c.Bytes) {
		from = 0
	}
	c.From = from - from%16
	end := min(c.From+hexPart, len(c.Bytes))
	c.Hex = hexLines(c.Bytes[c.From:end], c.From)
	if c.From > 0 {
		c.Earlier = max(0, c.From-hexPart)
	}
	if end < len(c.Bytes) {
		c.Later = end
	}
}

func hexLines(raw []byte, offset int) (lines []hexLine) {
	for at := 0; at < len(raw); at += 16 {
		part := raw[at:min(at+16, len(raw))]
		var digits, text strings.Builder
		for i := range 16 {
			if i == 8 {
				digits.WriteByte(' ')
			}
			if i >= len(part) {
				digits.WriteString("   ")
				continue
			}
			fmt.Fprintf(&digits, "%02x ", part[i])
			if c := part[i]; c >= 0x20 && c < 0x7f {
				text.WriteByte(c)
			} else {
				text.WriteByte('.')
			}
		}
		lines = append(lines, hexLine{fmt.Sprintf("%08x", offset+at), digits.String(), text.String()})
	}
	return lines
}

// magic returns the format that the first bytes indicate, or "" if they indicate none.
func magic(raw []byte) string {
	begins := func(prefix string) bool { return strings.HasPrefix(string(raw[:min(len(raw), 8)]), prefix) }
	switch {
	case len(raw) == 0:
		return ""
	case begins("Obj\x01"):
		return "Avro object container file"
	case begins("\xc3\x01") && len(raw) >= 10:
		return fmt.Sprintf("Avro single object, schema fingerprint %x", raw[2:10])
	case raw[0] == 0 && len(raw) >= 6:
		return fmt.Sprintf("Avro, Protobuf or JSON of a schema registry, schema id %d", binary.BigEndian.Uint32(raw[1:5]))
	case begins("\x1f\x8b"):
		return "gzip"
	case begins("\x28\xb5\x2f\xfd"):
		return "Zstandard"
	case begins("PAR1"):
		return "Parquet"
	case !utf8.Valid(raw) && looksLikeProtobuf(raw):
		return "possibly Protobuf: the bytes are a series of numbered fields"
	}
	return ""
}

// looksLikeProtobuf reports whether all of raw can be parsed as fields of the wire format.
func looksLikeProtobuf(raw []byte) bool {
	for len(raw) > 0 {
		tag, n := binary.Uvarint(raw)
		if n <= 0 || tag>>3 == 0 || tag>>3 >= 1<<29 {
			return false
		}
		raw = raw[n:]
		size := 0
		switch tag & 7 {
		case 0:
			_, size = binary.Uvarint(raw)
		case 1:
			size = 8
		case 2:
			length, n := binary.Uvarint(raw)
			if n <= 0 || length > uint64(len(raw)-n) {
				return false
			}
			size = n + int(length) //nolint:gosec // at most the length of raw
		case 5:
			size = 4
		}
		if size <= 0 || size > len(raw) {
			return false
		}
		raw = raw[size:]
	}
	return true
}

// header is a header of a record as shown on the page: as text, or as bytes in hex.
type header struct {
	Name, Text string
	Binary     bool
	Null       bool
}

func headersOf(all []client.DeadLetterHeader) (out []header) {
	for _, h := range all {
		switch {
		case h.Value != nil:
			out = append(out, header{Name: h.Name, Text: *h.Value})
		case h.ValueBase64 != nil:
			raw, isHidden := decoded(*h.ValueBase64)
			if isHidden {
				out = append(out, header{Name: h.Name, Text: *h.ValueBase64})
				continue
			}
			out = append(out, header{Name: h.Name, Text: fmt.Sprintf("% x", raw), Binary: true})
		default:
			out = append(out, header{Name: h.Name, Null: true})
		}
	}
	return out
}

// keyOf returns the key of a record as shown on the page.
func keyOf(text, inBase64 *client.ContentText) *header {
	if text == nil && inBase64 == nil {
		return nil
	}
	h := headersOf([]client.DeadLetterHeader{{Value: text, ValueBase64: inBase64}})[0]
	return &h
}
