package httpapi_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/httpapi/openapi"
)

var (
	upperWords = regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`)
	lowerWords = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	// becomes ends the name of what something is or became.
	becomes = regexp.MustCompile(`(?i)(state|status|outcome|source|class|trigger|resolution)$`)
)

// otherStyles are the lists of the contract that do not follow decision 0133, and why. A list is named as the schema,
// parameter or member that has it, after the schema around it.
var otherStyles = map[string]string{
	"ParticipantSecretSource":      "as the configuration spells it",
	"StepAction":                   "stored by the saga's step logs as their seed spells it",
	"SagaState":                    "the names of the saga model's states",
	"RetryClass":                   "workflow definitions choose from it",
	"DeliveryStatus":               "stored by every delivery",
	"Health.status":                "what health checks expect",
	"Readiness.status":             "what health checks expect",
	"HTTPCall.method":              "HTTP's",
	"DeadLetterTarget.method":      "HTTP's",
	"DeadLetterRetryTarget.method": "HTTP's",
	"SagaAction":                   "segments of paths",
	"SagaBulkAction":               "segments of paths",
	"AuditEventType":               "types of events, with dots",
	"SeriesBucketLength":           "durations",
	"ProblemCode":                  "codes, which are constants for clients",
	"specversion":                  "CloudEvents'",
	"datacontenttype":              "a media type",
}

// A state is UPPER_CASE and a choice lower_case (docs/decisions/0133).
func TestEnumsAreSpelledInOneStyle(t *testing.T) {
	text, err := openapi.Source()
	if err != nil {
		t.Fatal(err)
	}
	var contract any
	if err := json.Unmarshal(text, &contract); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	eachEnum(contract, "", "", func(name string, values []any) {
		found[name] = true
		style, called := lowerWords, "lower_case"
		if becomes.MatchString(name) {
			style, called = upperWords, "UPPER_CASE"
		}
		follows := !slices.ContainsFunc(values, func(v any) bool {
			word, is := v.(string)
			return is && word != "" && !style.MatchString(word)
		})
		if _, other := otherStyles[name]; follows == other {
			t.Errorf("%s is %v: want %s unless it is in otherStyles", name, values, called)
		}
	})
	for _, name := range slices.Sorted(maps.Keys(otherStyles)) {
		if !found[name] {
			t.Errorf("there is no enum %s", name)
		}
	}
}

// eachEnum calls f with each list of values below a node of the contract. It is named as the schema, the
// parameter or the member that it belongs to, and a member has the name of its schema before its own.
func eachEnum(node any, of, name string, f func(name string, values []any)) {
	switch node := node.(type) {
	case []any:
		for _, child := range node {
			eachEnum(child, of, name, f)
		}
	case map[string]any:
		if values, is := node["enum"].([]any); is {
			f(strings.TrimPrefix(of+"."+name, "."), values)
		}
		if parameter, is := node["name"].(string); is {
			name = parameter
		}
		for key, child := range node {
			switch children, many := child.(map[string]any); {
			case many && (key == "schemas" || key == "parameters" || key == "headers"):
				for called, schema := range children {
					eachEnum(schema, "", called, f)
				}
			case many && key == "properties":
				for called, schema := range children {
					eachEnum(schema, cmp.Or(of, name), called, f)
				}
			default:
				eachEnum(child, of, name, f)
			}
		}
	}
}
