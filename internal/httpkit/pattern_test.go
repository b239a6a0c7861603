package httpkit

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestUUIDMatcherAgreesWithThePattern(t *testing.T) {
	pattern := regexp.MustCompile(UUIDPattern)
	id := uuid.NewString()
	texts := []string{"", id, strings.ToUpper(id), id + "\n", id[1:], id + "0", "{" + id + "}",
		strings.ReplaceAll(id, "-", "")}
	for i := range id {
		for _, c := range "-0fFgG/:@`é " {
			texts = append(texts, id[:i]+string(c)+id[i+1:])
		}
	}
	for _, text := range texts {
		if got, want := (uuidMatcher{}).MatchString(text), pattern.MatchString(text); got != want {
			t.Errorf("%q matches: %v, the pattern matches: %v", text, got, want)
		}
	}
	if m, err := MatcherOf(UUIDPattern); err != nil || m != (uuidMatcher{}) {
		t.Errorf("the pattern is matched by %T, %v", m, err)
	}
}
