package strictjson

import (
	"strconv"
	"strings"
)

// The values of Error.Code.
const (
	CodeEmpty         = "empty"          // no content, or only blanks
	CodeSyntax        = "syntax"         // not JSON, or truncated
	CodeTrailingData  = "trailing_data"  // something follows the value
	CodeInvalidUTF8   = "invalid_utf8"   // bytes that are not UTF-8
	CodeNULCharacter  = "nul_character"  // U+0000 in a string, raw or escaped
	CodeLoneSurrogate = "lone_surrogate" // half of a surrogate pair
	CodeDuplicateKey  = "duplicate_key"  // the same decoded key twice in one object
	CodeTooDeep       = "too_deep"       // beyond Limits.MaxDepth
	// beyond Limits.MaxNumberDigits, or the exponents add more than 64 Ki digits in total
	CodeNumberOutOfRange = "number_out_of_range"
)

// Error describes what is wrong with a document, and where.
type Error struct {
	// Code is one of the Code constants.
	Code string
	// Offset is the index in src of the offending byte: for an escape or a number, its first byte;
	// for a duplicate key, the opening quote of the second one; for a truncated document, its
	// length.
	Offset int
	// Pointer is the JSON Pointer (RFC 6901) of the offending value, or of the enclosing array or
	// object if the fault is between values or in a key; "" is the whole document. It contains keys
	// of the document. A pointer longer than 512 bytes is cut to that of an enclosing value.
	Pointer string
	// Detail is a sentence fragment for people; it never quotes the document.
	Detail string
}

// Error returns the detail, the offset and the code, but none of the document's content, so it is
// safe to log.
func (e *Error) Error() string {
	return "invalid JSON at byte " + strconv.Itoa(e.Offset) + ": " + e.Detail + " (" + e.Code + ")"
}

// under prepends a reference token to the pointer while the parser returns from the fault to the
// root, so that pointers cost nothing if there are no faults.
func (e *Error) under(token string) *Error {
	e.Pointer = "/" + Token(token) + e.Pointer
	return e
}

// Token escapes a member's name for use as a token of a JSON Pointer (RFC 6901).
func Token(name string) string { return pointerEscapes.Replace(name) }

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")
