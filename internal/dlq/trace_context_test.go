package dlq_test

import (
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/dlq"
)

// The headers of a letter are passed on to the run that retries it in the same way as those of a
// request: several lines form one list, and malformed lists are dropped.
func TestTraceContextOfALetter(t *testing.T) {
	const parent = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for name, c := range map[string]struct {
		headers        []string
		state, baggage string
	}{
		"none":                      {nil, "", ""},
		"all":                       {[]string{parent, "tracestate: a=1", "baggage: k=v"}, "a=1", "k=v"},
		"names in capitals":         {[]string{strings.ToUpper(parent[:11]) + parent[11:], "TraceState: a=1", "Baggage: k=v"}, "a=1", "k=v"},
		"several lines":             {[]string{"baggage: k=v", parent, "tracestate: a=1", "tracestate: b=2", "baggage: l=w;p"}, "a=1,b=2", "k=v,l=w;p"},
		"a state without a parent":  {[]string{"tracestate: a=1", "baggage: k=v"}, "", "k=v"},
		"a parent that is none":     {[]string{"traceparent: 00-0-0-01", "tracestate: a=1"}, "", ""},
		"malformed":                 {[]string{parent, "tracestate: A", "baggage: k"}, "", ""},
		"a line end in the baggage": {[]string{"baggage: k=v\r\nx: y"}, "", ""},
		"too long":                  {[]string{"baggage: k=" + strings.Repeat("v", 8192)}, "", ""},
	} {
		var content dlq.Content
		for _, h := range c.headers {
			key, value, _ := strings.Cut(h, ": ")
			content.Headers = append(content.Headers, dlq.Header{Name: key, Value: []byte(value)})
		}
		if state, baggage := content.TraceContext(); state != c.state || baggage != c.baggage {
			t.Errorf("%s: %q and %q, want %q and %q", name, state, baggage, c.state, c.baggage)
		}
	}
}
