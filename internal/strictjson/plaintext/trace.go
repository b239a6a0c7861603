package plaintext

import (
	"regexp"
	"strings"
)

// Limits for the headers that are passed on in addition to traceparent.
const (
	maxTraceStates, maxTraceState = 32, 512
	maxBaggages, maxBaggage       = 64, 8192
)

// TraceState joins the lines of a tracestate into one (W3C Trace Context, section 3.3). It returns
// "" if they are malformed or too long, because the standard asks to drop such a list.
func TraceState(lines ...string) string {
	if s := strings.Join(lines, ","); validTraceState(s) {
		return s
	}
	return ""
}

// Baggage does the same for the lines of a baggage header (W3C Baggage, section 3.3).
func Baggage(lines ...string) string {
	if s := strings.Join(lines, ","); validBaggage(s) {
		return s
	}
	return ""
}

var (
	// Trace Context, section 3.3: a key (in multi-tenant form with the vendor after @) and a value.
	traceMember = regexp.MustCompile(`^([a-z][-a-z0-9_*/]{0,255}|[a-z0-9][-a-z0-9_*/]{0,240}@[a-z][-a-z0-9_*/]{0,13})=` +
		`[ -+\--<>-~]{0,255}[!-+\--<>-~]$`)
	// Baggage, section 3.3: a token, a percent-encoded value, and properties, whose values are optional.
	baggageMember = regexp.MustCompile(`^` + token + blank + `=` + blank + octets +
		`(` + blank + `;` + blank + token + `(` + blank + `=` + blank + octets + `)?)*$`)
)

const (
	token  = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
	blank  = `[ \t]*`
	octets = `[!#-+\--:<-\[\]-~]*`
)

func validTraceState(s string) bool {
	if len(s) > maxTraceState {
		return false
	}
	seen := map[string]bool{}
	for member := range members(s) {
		key, _, _ := strings.Cut(member, "=")
		if !traceMember.MatchString(member) || seen[key] || len(seen) == maxTraceStates {
			return false
		}
		seen[key] = true
	}
	return len(seen) > 0
}

func validBaggage(s string) bool {
	if len(s) > maxBaggage {
		return false
	}
	n := 0
	for member := range members(s) {
		if n++; n > maxBaggages || !baggageMember.MatchString(member) {
			return false
		}
	}
	return n > 0
}

// members yields the members of a list in a header, except empty ones.
func members(s string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for member := range strings.SplitSeq(s, ",") {
			if member = strings.Trim(member, " \t"); member != "" && !yield(member) {
				return
			}
		}
	}
}
