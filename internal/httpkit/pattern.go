package httpkit

import (
	"regexp"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"
)

// MatcherOf compiles a pattern of the contract. The pattern of IDs is matched without a regular
// expression: a batch of job runs has two IDs per run, and checking such a body takes only a tenth
// of the time this way.
func MatcherOf(pattern string) (openapi3.RegexMatcher, error) {
	if pattern == UUIDPattern {
		return uuidMatcher{}, nil
	}
	return regexp.Compile(pattern)
}

// UUIDPattern is the pattern of IDs.
const UUIDPattern = `^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`

// uuidMatcher matches the same texts as UUIDPattern. The other forms of IDs that package uuid
// accepts have different lengths.
type uuidMatcher struct{}

func (uuidMatcher) MatchString(s string) bool { return len(s) == 36 && uuid.Validate(s) == nil }
