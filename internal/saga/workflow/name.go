package workflow

import (
	"strings"
	"unicode"
)

const maxName = 255 // VARCHAR(255) in seeds 1 and 2

// name reads m["name"]. It may contain letters, marks and digits of any script and the characters .
// _ : - so that it can appear in a URL path, a header and a log line.
func (r *reader) name(m map[string]any, at string) string {
	s := r.text(m, at, "name", maxName)
	switch v := m["name"]; {
	case m == nil:
	case v == nil || v == "":
		r.fail(at+"/name", CodeInvalid, "is required")
	case s != "" && len([]rune(s)) <= maxName && !ValidName(s):
		r.fail(at+"/name", CodeInvalid, "must consist of letters, digits and . _ : - and begin with a letter or digit")
	}
	return s
}

// ValidName reports whether s is a valid name of a workflow, a step or a participant.
func ValidName(s string) bool {
	for i, c := range s {
		letter := unicode.IsLetter(c) || unicode.IsDigit(c)
		if !letter && (i == 0 || !unicode.IsMark(c) && !strings.ContainsRune("._:-", c)) {
			return false
		}
	}
	return s != "" && len([]rune(s)) <= maxName
}
