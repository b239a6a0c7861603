package httpapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// guarded is when an operation requires If-Match.
type guarded int

const (
	never      guarded = iota // the operation has no If-Match, or an optional one (x-if-match: optional)
	configured                // only with Config.RequireIfMatch
	throughout                // always (x-if-match: required)
)

// guardOf returns when an operation requires If-Match, and the path of the GET that returns the
// ETag to send in it.
func guardOf(doc *openapi3.T, path string, op *openapi3.Operation) (guarded, string, error) {
	takes := slices.ContainsFunc(op.Parameters, func(p *openapi3.ParameterRef) bool {
		return p.Value.In == openapi3.ParameterInHeader && p.Value.Name == "If-Match"
	})
	when, word := configured, ""
	if v, ok := op.Extensions["x-if-match"]; ok {
		word, _ = v.(string)
		switch {
		case word != "required" && word != "optional":
			return never, "", fmt.Errorf("x-if-match %q is neither required nor optional", v)
		case !takes:
			return never, "", fmt.Errorf("x-if-match is %s, but there is no parameter If-Match", word)
		case word == "required":
			when = throughout
		}
	}
	if !takes || word == "optional" {
		return never, "", nil
	}
	if op.Responses.Value("428") == nil {
		return never, "", errors.New("takes If-Match, but declares no 428")
	}
	for at := path; at != ""; at = at[:strings.LastIndexByte(at, '/')] {
		if item := doc.Paths.Value(at); item != nil && item.Get != nil && hasETag(item.Get) {
			return when, at, nil
		}
	}
	return never, "", errors.New("takes If-Match, but no GET above it returns an ETag")
}

func hasETag(op *openapi3.Operation) bool {
	ok := op.Responses.Value("200")
	return ok != nil && ok.Value.Headers["ETag"] != nil
}
