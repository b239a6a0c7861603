package strictjson

// Mended is Canonical for documents with texts that may be damaged. A NUL character, half of a
// surrogate pair or a run of bytes that are not UTF-8 is replaced with U+FFFD in every string for
// which may, called with the path of the string, returns true. Keys are never mended. may must not
// retain path, and is called once for each character that is replaced.
func Mended(dst, src []byte, l Limits, may func(path []string) bool) ([]byte, error) {
	return canonical(dst, src, l, may)
}

var replacement = []byte("\uFFFD")

// mendable lists the faults that concern a single character in a string.
var mendable = map[string]bool{CodeNULCharacter: true, CodeLoneSurrogate: true, CodeInvalidUTF8: true}

// Mendable reports whether Mended might accept a document that Canonical rejected with this
// error.
func Mendable(err error) bool {
	e, ok := err.(*Error) //nolint:errorlint // as Canonical returns it
	return ok && mendable[e.Code]
}
