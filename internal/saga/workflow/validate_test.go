package workflow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/saga/workflow"
)

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "7": true, "reserve-stock": true, "v1.2_x:y": true,
		"在庫を確保":                  true,
		"Überweisung":            true,
		"заказ":                  true,
		"٣":                      true,
		"e\u0301tape":            true,
		"हिन्दी":                 true,
		strings.Repeat("界", 255): true, strings.Repeat("界", 256): false, strings.Repeat("n", 256): false,
		"": false, "-a": false, ".": false, "..": false, "_a": false, ":a": false, "\u0301a": false,
		"a b": false, "a/b": false, "a\\b": false, "a\"b": false, "a%b": false, "a?b": false, "a#b": false,
		"a\x00b": false, "a\nb": false, "a\tb": false, "a\u00a0b": false, "a\u200bb": false, "a\u202eb": false,
		"\xff": false, "a\xff": false, "a\ufffd": false, "😀": false, "½": false, "a+b": false, "a@b": false,
	} {
		if got := workflow.ValidName(name); got != want {
			t.Errorf("ValidName(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestURLs(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"http://h", ""},
		{"https://h:8443/a/b?c=d&e=%20", ""},
		{"HTTP://H/", ""},
		{"http://[::1]:80/", ""},
		{"http://例え.jp/パス", ""},
		{"http://h:65535/", ""},
		{"http://169.254.169.254/", ""}, // whether it may be reached is decided when the connection is dialled
		{"http://" + strings.Repeat("h", 2041), ""},
		{"", "is required"},
		{"http://" + strings.Repeat("h", 2042), "must have at most 2048 characters"},
		{"h:80/x", "must begin with http:// or https://"},
		{"/path", "must begin with http:// or https://"},
		{"//h/path", "must begin with http:// or https://"},
		{"ftp://h/", "must begin with http:// or https://"},
		{"file:///etc/passwd", "must begin with http:// or https://"},
		{"javascript:alert(1)", "must begin with http:// or https://"},
		{"http:h", "has no host"},
		{"http:///path", "has no host"},
		{"http://:80/", "has no host"},
		{"http://u@h/", "must not contain a user name or password"},
		{"http://u:secret@h/", "must not contain a user name or password"},
		{"http://h/#top", "must not have a fragment"},
		{"http://h:65536/", "has a port above 65535"},
		{"http://h:x/", "is not a URL"},
		{"http://h/%zz", "is not a URL"},
		{"http://h h/", "is not a URL"},
		{"http://h/\n", "is not a URL"},
		{" http://h/", "is not a URL"},
		{"http://[::1/", "is not a URL"},
	} {
		_, err := workflow.ParseJSON([]byte(calling(tt.url)), workflow.Limits{})
		got := ""
		if err != nil {
			_, got, _ = strings.Cut(err.Error(), "/steps/0/action/http/url: ")
		}
		if got != tt.want {
			t.Errorf("%.60q: %q, want %q (%v)", tt.url, got, tt.want, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the answer quotes a password: %v", err)
		}
	}
}

func TestHeaders(t *testing.T) {
	for _, tt := range []struct{ name, headers, want string }{
		{"ordinary ones", `{"X-Team":"stock","Authorization":"Bearer x.y","Accept":""}`, ""},
		{"a value that is not ASCII", `{"X-Team":"在庫"}`, ""},
		{"none", `{}`, ""},
		{"null", `null`, ""},
		{"an empty name", `{"":"x"}`, "is not a valid header"},
		{"a blank in the name", `{"X Team":"x"}`, "is not a valid header"},
		{"a colon in the name", `{"X:Team":"x"}`, "is not a valid header"},
		{"a name that is not ASCII", `{"X-Équipe":"x"}`, "is not a valid header"},
		{"a second header in the value", `{"X-Team":"x\r\nX-Admin: 1"}`, "is not a valid header"},
		{"a NUL in the value", "{\"X-Team\":\"x\x7f\"}", "is not a valid header"},
		{"the same name in two spellings", `{"X-Team":"a","x-team":"b"}`, "this header appears twice, with different capitalization"},
		{"the idempotency key", `{"idempotency-key":"x"}`, "this header is set by Skald itself"},
		{"the trace", `{"TraceParent":"x"}`, "this header is set by Skald itself"},
		{"anything of the saga", `{"x-sAga-anything":"x"}`, "this header is set by Skald itself"},
		{"the host", `{"Host":"x"}`, "this header is set by Skald itself"},
		{"the length", `{"content-LENGTH":"1"}`, "this header is set by Skald itself"},
		{"the framing", `{"Transfer-Encoding":"chunked"}`, "this header is set by Skald itself"},
		{"the connection", `{"Connection":"close"}`, "this header is set by Skald itself"},
		{"the content type", `{"Content-Type":"text/plain"}`, "this header is set by Skald itself"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := workflow.ParseJSON(
				[]byte(acting(`{"http":{"url":"http://h/","headers":`+tt.headers+`}}`)),
				workflow.Limits{},
			)
			if got := fmt.Sprint(err); (tt.want == "") != (err == nil) || !strings.Contains(got, tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestLimitsAreInclusive(t *testing.T) {
	for _, member := range []string{
		`"timeout_ms":1`, `"timeout_ms":31622400000`, `"compensation_timeout_ms":31622400000`,
		`"description":"` + strings.Repeat("é", 2000) + `"`,
		`"retry":{"max_attempts":1,"initial_interval_ms":1,"max_interval_ms":1,"multiplier":1,"jitter":0,"retry_on":[]}`,
		`"retry":{"max_attempts":1000000,"initial_interval_ms":86400000,"max_interval_ms":604800000,"multiplier":100,"jitter":1}`,
		`"retry":{"retry_on":["timeout","network","unavailable","server_error","invalid_response"]}`,
		`"retry":{}`, `"retry":null`, `"description":null`, `"timeout_ms":null`,
		`"retention":null`, `"retention":{}`, `"retention":{"completed_ms":0}`, `"retention":{"completed_ms":-1,"failed_ms":3162240000000}`,
	} {
		if _, err := workflow.ParseJSON([]byte(with(member)), workflow.Limits{}); err != nil {
			t.Errorf("%.80s: %v", member, err)
		}
	}
	for _, member := range []string{
		`"retry":{"max_attempts":1000001}`, `"retry":{"max_attempts":1.5}`,
		`"retry":{"initial_interval_ms":86400001}`, `"retry":{"max_interval_ms":604800001}`,
		`"retry":{"multiplier":100.01}`, `"retry":{"jitter":-0.1}`,
	} {
		if _, err := workflow.ParseJSON([]byte(with(member)), workflow.Limits{}); err == nil {
			t.Errorf("%s is accepted", member)
		}
	}
}

func TestJSONMustBeStrict(t *testing.T) {
	good := flow(step("s"))
	for _, tt := range []struct{ name, src string }{
		{"nothing", ""},
		{"blanks", " \n"},
		{"half of it", good[:len(good)/2]},
		{"something after it", good + " true"},
		{"a second one after it", good + good},
		{"a key twice", `{"name":"w","name":"v","steps":[` + step("s") + `]}`},
		{"a comment", "// x\n" + good},
		{"a NUL in a text", with(`"description":"\u0000"`)},
		{"half a surrogate pair", with(`"description":"\ud800"`)},
		{"invalid UTF-8", with("\"description\":\"\xff\"")},
		{"nesting without end", strings.Repeat("[", 100_000)},
		{"YAML", minimal("")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := workflow.ParseJSON([]byte(tt.src), workflow.Limits{})
			if code, _ := mistakes(err); d != nil || code != workflow.CodeSyntax {
				t.Errorf("got %v, %v; want code %s", d, err, workflow.CodeSyntax)
			}
		})
	}
	if _, err := workflow.ParseJSON([]byte(" "+good+"\n"), workflow.Limits{}); err != nil {
		t.Errorf("blanks around it: %v", err)
	}
}

func TestNumbersInAnswersAreReadable(t *testing.T) {
	_, err := workflow.ParseJSON([]byte(with(`"timeout_ms":0`)), workflow.Limits{})
	if diff := cmp.Diff("WORKFLOW_INVALID: /timeout_ms: must be between 1 and 31622400000", fmt.Sprint(err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
