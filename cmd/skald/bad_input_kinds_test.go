package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// badTexts are tried wherever a string can occur: in a path, a parameter, a header and a body. The
// values are escaped for a URL.
var badTexts = map[string]string{
	"empty":                    "",
	"blank":                    "%20",
	"NUL":                      "a%00b",
	"no UTF-8":                 "%ff%fe",
	"overlong UTF-8":           "%c0%af",
	"half a surrogate":         "%ed%a0%80",
	"control characters":       "a%0d%0aX-Injected:%201%1b%5B31m",
	"10,000 characters":        strings.Repeat("x", 10_000),
	"SQL in quotes":            "%27%20OR%201%3D1%3B%20DROP%20TABLE%20saga.saga_states%3B--",
	"SQL in dollars":           "%24%24%3BSELECT%20pg_sleep(10)%3B%24%24",
	"a path upwards":           "..%2f..%2f..%2fetc%2fpasswd",
	"a path escaped twice":     "%252e%252e%252fetc",
	"format verbs":             "%25s%25n%25v%25d",
	"a template":               "%7B%7B.%7D%7D%24%7Bjndi%3Aldap%3A%2F%2F127.0.0.1%2Fa%7D",
	"HTML":                     "%3Cscript%3Ealert(1)%3C%2Fscript%3E",
	"a formula":                "%3Dcmd%7C%27%2FC%20calc%27%21A0",
	"right to left, emoji":     "%E2%80%AEabc%F0%9F%92%A9",
	"a noncharacter":           "%EF%BF%BE%EF%BF%BF",
	"zero":                     "0",
	"minus one":                "-1",
	"beyond int64":             "99999999999999999999",
	"half a number":            "1e",
	"infinity":                 "-Infinity",
	"not a number":             "NaN",
	"full-width digits":        "%EF%BC%91%EF%BC%92",
	"the id of zeros":          "00000000-0000-0000-0000-000000000000",
	"an id in braces":          "%7B01234567-89ab-7def-8123-456789abcdef%7D",
	"the year zero":            "0000-01-01T00:00:00Z",
	"the year 9999":            "9999-12-31T23:59:59.999999999%2B23:59",
	"a leap second":            "2016-12-31T23:59:60Z",
	"a JSON object":            "%7B%22a%22%3A%7B%22%24ne%22%3Anull%7D%7D",
	"a special value of SQL":   "infinity",
	"a duration without sense": "-9223372036854775808ns",
}

// badValues are tried as a member of a body, as JSON.
var badValues = map[string]string{
	"null": "null", "true": "true", "an empty text": `""`, "a negative number": "-1", "a fraction": "0.5",
	"2^53+1": "9007199254740993", "2^63": "9223372036854775808", "a number without end": "1e999999999", "minus zero": "-0",
	"an empty list": "[]", "an empty object": "{}", "a list of lists": "[[[[]]]]",
	"NUL in a body": `"a\u0000b"`, "half a surrogate in a body": `"\ud800"`, "no UTF-8 in a body": "\"\xff\"",
	"SQL in a body":       `"'; DROP TABLE saga.saga_states; --"`,
	"10,000 in a body":    `"` + strings.Repeat("x", 10_000) + `"`,
	"a million in a body": `"` + strings.Repeat("x", 1<<19) + `"`,
	"1,000 elements":      "[" + strings.Repeat("0,", 999) + "0]",
	"1,000 members":       "{" + members(1000) + "}",
	"a twin":              `{"a":1,"a":2}`,
	"__proto__":           `{"__proto__":{"admin":true},"constructor":null}`,
	"a metadata address":  `"http://169.254.169.254/latest/meta-data/"`,
	"a file":              `"file:///etc/passwd"`,
	"the year zero":       `"0000-01-01T00:00:00Z"`,
	"the year 9999":       `"9999-12-31T23:59:59.999999999+23:59"`,
	"the id of zeros":     `"00000000-0000-0000-0000-000000000000"`,
	"a regular bomb":      `"(a+)+$(((((((((((((((((((((("`,
	"a cron without end":  `"*/0 99 31 2 *"`,
}

// badBodies are tried as the whole body, with their media type.
var badBodies = map[string][2]string{
	"nothing":             {"", "application/json"},
	"blanks":              {" \n\t ", "application/json"},
	"a text as JSON":      {`hello`, "application/json"},
	"half a document":     {`{"a":`, "application/json"},
	"two documents":       {`{} {}`, "application/json"},
	"a list as a body":    {`[]`, "application/json"},
	"null as a body":      {`null`, "application/json"},
	"a number as a body":  {`0`, "application/json"},
	"a text as a body":    {`"x"`, "application/json"},
	"depth":               {strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), "application/json"},
	"depth of objects":    {strings.Repeat(`{"a":`, 50_000) + "1" + strings.Repeat("}", 50_000), "application/json"},
	"an unknown member":   {`{"zz_surprise":1}`, "application/json"},
	"twins":               {`{"zz":1,"zz":2}`, "application/json"},
	"a byte order mark":   {"\ufeff{}", "application/json"},
	"UTF-16":              {"{\x00}\x00", "application/json; charset=utf-16"},
	"bytes":               {"\x00\x01\xfe\xff", "application/json"},
	"a form":              {"a=1&b=2", "application/x-www-form-urlencoded"},
	"parts":               {"--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b--", "multipart/form-data; boundary=b"},
	"entities of XML":     {`<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>`, "application/xml"},
	"aliases of YAML":     {yamlBomb(), "application/yaml"},
	"no media type":       {"{}", "application/octet-stream"},
	"a broken media type": {"{}", "application/json;;;=\"x"},
	"lines":               {"{}\n[]\nnull\n{\"a\":\n", "application/x-ndjson"},
	"comments":            {"{/* */ // x\n}", "application/json"},
	"NaN as JSON":         {`{"a":NaN,"b":Infinity}`, "application/json"},
}

// badHeaders are tried on every operation, declared or not.
var badHeaders = map[string][][2]string{
	"a wrong scheme":           {{"Authorization", "Basic YTpi"}},
	"an empty credential":      {{"Authorization", "Bearer "}},
	"a credential with SQL":    {{"Authorization", "Bearer ' OR 1=1 --"}},
	"a token without a key":    {{"Authorization", "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJyb290In0."}},
	"a tenant that is none":    {{"X-Tenant-Id", "' OR 1=1 --"}},
	"two tenants":              {{"X-Tenant-Id", "a"}, {"X-Tenant-Id", "b"}},
	"a broken trace":           {{"Traceparent", "00-zz-00-99"}, {"Tracestate", strings.Repeat("a=b,", 1000)}},
	"a long request id":        {{"X-Request-Id", strings.Repeat("x", 5000)}},
	"another media wanted":     {{"Accept", "text/html;q=NaN, */zz"}},
	"a method in a header":     {{"X-Http-Method-Override", "DELETE"}, {"X-Forwarded-Host", "evil.example"}},
	"a thousand headers":       manyBadHeaders(),
	"a compressed body":        {{"Content-Encoding", "gzip"}},
	"an unknown coding":        {{"Content-Encoding", "br, zz"}},
	"a broken If-Match":        {{"If-Match", "*, W/\"x\", 1"}},
	"a broken If-None-Match":   {{"If-None-Match", "\"\""}},
	"a broken range":           {{"Range", "bytes=9-1,-1,zz"}},
	"a broken key":             {{"Idempotency-Key", "a b\tc"}},
	"a broken Prefer":          {{"Prefer", "wait=-1, respond-async=\""}},
	"a broken place in a feed": {{"Last-Event-Id", "99999999999999999999-\x7f"[:21]}},
}

func members(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"k%d":0`, i))
	}
	return strings.Join(all, ",")
}

func manyBadHeaders() (all [][2]string) {
	for i := range 1000 {
		all = append(all, [2]string{fmt.Sprintf("X-%d", i), "a"})
	}
	return all
}

func yamlBomb() string {
	var text strings.Builder
	text.WriteString("a0: &a0 [x, x]\n")
	for i := range 40 {
		fmt.Fprintf(&text, "a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	return text.String()
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

// everyKind lists the whole catalogue.
func everyKind() (all []string) {
	for text := range badTexts {
		if all = append(all, "parameter: "+text); text != "empty" {
			all = append(all, "path: "+text)
		}
	}
	for value := range badValues {
		all = append(all, "member: "+value)
	}
	for body := range badBodies {
		all = append(all, "body: "+body)
	}
	for header := range badHeaders {
		all = append(all, "header: "+header)
	}
	return append(all, "parameter: unknown", "parameter: twice", "parameter: malformed", "body: gzip", "body: too large",
		"body: none wanted")
}

const hole = `"@hole@"`

// badRequests returns the bad requests of an operation: each kind in each place to which it
// applies.
func badRequests(method, path string, item *openapi3.PathItem, op *openapi3.Operation) (all []badRequest) {
	places, query := map[string]string{}, url.Values{}
	var params []*openapi3.Parameter
	for _, ref := range slices.Concat(item.Parameters, op.Parameters) {
		p := ref.Value
		params = append(params, p)
		text := plain(sample(p.Schema.Value, 0))
		switch {
		case p.In == "path":
			places[p.Name] = url.PathEscape(text)
		case p.In == "query" && p.Required:
			query.Set(p.Name, text)
		}
	}
	at := func(name, text string) string {
		full := path
		for n, v := range places {
			if n == name {
				v = text
			}
			full = strings.ReplaceAll(full, "{"+n+"}", v)
		}
		return full
	}
	var schema *openapi3.Schema
	media, body := "", ""
	if op.RequestBody != nil {
		media = slices.Sorted(maps.Keys(op.RequestBody.Value.Content))[0]
		schema = op.RequestBody.Value.Content[media].Schema.Value
		body = marshal(sample(schema, 0))
	}
	add := func(r badRequest) {
		r.method = method
		if r.media == "" {
			r.media = media
		}
		if r.path == "" {
			r.path = at("", "")
		}
		if op.Extensions["x-if-match"] == "required" && (len(r.header) == 0 || r.header[0][0] != "If-Match") {
			r.header = append([][2]string{{"If-Match", "*"}}, r.header...)
		}
		if len(query) > 0 && !strings.Contains(r.path, "?") {
			r.path += "?" + query.Encode()
		}
		all = append(all, r)
	}
	with := func(raw string) string {
		if len(query) > 0 {
			raw = query.Encode() + "&" + raw
		}
		return at("", "") + "?" + raw
	}
	for i, p := range params {
		for kind, text := range badTexts {
			if !chosen(i, kind) {
				continue
			}
			switch p.In {
			case "path":
				if text != "" {
					add(badRequest{kind: "path: " + kind, path: at(p.Name, text), body: body})
				}
			case "query":
				add(badRequest{kind: "parameter: " + kind, path: with(p.Name + "=" + text), body: body})
			case "header":
				if value, err := url.PathUnescape(text); err == nil && !strings.ContainsAny(value, "\x00\r\n\x1b") {
					add(badRequest{kind: "parameter: " + kind, header: [][2]string{{p.Name, value}}, body: body})
				}
			}
		}
		if p.In == "query" {
			text := url.QueryEscape(plain(sample(p.Schema.Value, 0)))
			add(badRequest{kind: "parameter: twice", path: with(p.Name + "=" + text + "&" + p.Name + "=" + text), body: body})
			add(badRequest{kind: "parameter: malformed", path: with(p.Name + "=%zz"), body: body})
		}
	}
	add(badRequest{kind: "parameter: unknown", path: with("zz_surprise=1"), body: body})
	for kind, header := range badHeaders {
		add(badRequest{kind: "header: " + kind, header: header, body: body})
	}
	if method == "GET" || method == "HEAD" {
		return all
	}
	if schema == nil {
		add(badRequest{kind: "body: none wanted", media: "application/json", body: `{"zz":1}`})
	}
	for kind, b := range badBodies {
		add(badRequest{kind: "body: " + kind, media: b[1], body: b[0]})
	}
	add(badRequest{kind: "body: gzip", body: zipped(strings.Repeat(" ", 1<<22)),
		header: [][2]string{{"Content-Encoding", "gzip"}}})
	if schema == nil {
		return all
	}
	add(badRequest{kind: "body: too large", body: `{"zz":"` + strings.Repeat("x", 9<<20) + `"}`, closes: true})
	for i, form := range holes(schema, 0) {
		text := marshal(form)
		for kind, value := range badValues {
			if !chosen(i, kind) || kind == "a million in a body" && i > 0 {
				continue
			}
			add(badRequest{kind: "member: " + kind, body: strings.ReplaceAll(text, hole, value)})
		}
	}
	return all
}

// chosen reports whether a kind is tried in the i-th place of an operation: every kind in the first
// place, a third of them in the others. TEST_BAD_INPUT=all tries all of them, which takes twice as
// long.
func chosen(i int, kind string) bool {
	return i == 0 || (i+len(kind))%3 == 0 || os.Getenv("TEST_BAD_INPUT") == "all"
}

func plain(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return marshal(v)
}

func marshal(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}
