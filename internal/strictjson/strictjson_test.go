package strictjson_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/strictjson"
)

// canonicalForms are values and their canonical forms; postgres_test.go checks the
// same table against a server.
var canonicalForms = []struct {
	name, src, want string
}{
	{"literals stay", ` [true , false,null] `, `[true,false,null]`},
	{"a scalar is a document", "\t\"x\"\r\n", `"x"`},
	{"blanks go", "{ \"a\" :\n[ 1 ,\t2 ] , \"b\" : { } , \"c\" : [ ] }", `{"a":[1,2],"b":{},"c":[]}`},

	{"keys in order stay", `{"a":1,"b":2,"aa":3}`, `{"a":1,"b":2,"aa":3}`},
	{"short keys come first", `{"aa":1,"b":2,"":3,"ab":4,"a":5}`, `{"":3,"a":5,"b":2,"aa":1,"ab":4}`},
	{"the length of a key counts in bytes", `{"zz":1,"é":2,"日":3,"abc":4}`, `{"zz":1,"é":2,"abc":4,"日":3}`},
	{"upper case comes before lower case", `{"a":1,"B":2,"_":3}`, `{"B":2,"_":3,"a":1}`},
	{"escaped keys are ordered by what they mean", `{"\u0062":1,"\n":2,"a":3,"\u0001":4,"\"":5}`,
		`{"\u0001":4,"\n":2,"\"":5,"a":3,"b":1}`},
	{"an escaped key of many bytes is one character long", `{"\u0001":1,"a":2,"aa":3}`, `{"\u0001":1,"a":2,"aa":3}`},
	{"objects inside objects out of order", `{"b":{"d":1,"c":[{"f":2,"e":3}]},"a":{"h":4,"g":5}}`,
		`{"a":{"g":5,"h":4},"b":{"c":[{"e":3,"f":2}],"d":1}}`},
	{"keys equal in different objects are not duplicates", `[{"a":{"a":1}},{"a":2}]`, `[{"a":{"a":1}},{"a":2}]`},

	{"short escapes stay", `"\"\\\b\f\n\r\t"`, `"\"\\\b\f\n\r\t"`},
	{"long escapes become short", `"\u0022\u005c\u0008\u000C\u000a\u000D\u0009"`, `"\"\\\b\f\n\r\t"`},
	{"other control characters are hex in lower case", `"\u0001\u000B\u000e\u001F"`, `"\u0001\u000b\u000e\u001f"`},
	{"solidus and what HTML escapes are raw", `"\/\u003c\u003E\u0026'"`, `"/<>&'"`},
	{"delete and line separators are raw", `"\u007f\u0080\u2028\u2029"`, "\"\u007f\u0080\u2028\u2029\""},
	{"other characters are raw", `"\u00e9\u65e5\uFFFD\uffff"`, "\"é日\uFFFD\uFFFF\""},
	{"surrogate pairs are one character", `"\ud83d\ude00 \uDBFF\uDFFF"`, "\"😀 \U0010FFFF\""},
	{"raw characters stay", `"é日😀"`, `"é日😀"`},
	{"an escaped backslash before a u is not an escape", `"\\u0000"`, `"\\u0000"`},

	{"integers stay", `[0,-1,9007199254740993,123456789012345678901234567890]`,
		`[0,-1,9007199254740993,123456789012345678901234567890]`},
	{"zeros after the point stay", `[1.0,1.50,-0.10]`, `[1.0,1.50,-0.10]`},
	{"exponents go", `[1e3,1E+05,1e-3,-2e2,1e0]`, `[1000,100000,0.001,-200,1]`},
	{"exponents move the point and its zeros", `[1.5e1,1.50e1,1.5e3,12.340e-2,0.05e1,0.0012e3]`,
		`[15,15.0,1500,0.12340,0.5,1.2]`},
	{"zero has no sign", `[-0,-0.00,-0e1,-0e-2]`, `[0,0.00,0,0.00]`},
	{"zero keeps its scale", `[0e5,0e-5,0.00e1,0.0e5]`, `[0,0.00000,0.0,0]`},
	{"zeros in front go with an exponent", `[0.001e2,0.001e3,0.001e5,0.10e1]`, `[0.1,1,100,1.0]`},
	{"an exponent may have zeros in front", `[1e0000000000000000003,1e-0002]`, `[1000,0.01]`},
	{"the largest float64", `1.7976931348623157e308`, `17976931348623157` + strings.Repeat("0", 292)},
	{"the smallest float64", `4.9406564584124654e-324`, `0.` + strings.Repeat("0", 323) + `49406564584124654`},
}

func TestCanonicalForm(t *testing.T) {
	for _, tt := range canonicalForms {
		t.Run(tt.name, func(t *testing.T) {
			got, err := strictjson.Canonical(nil, []byte(tt.src), strictjson.Limits{})
			if err != nil || string(got) != tt.want {
				t.Fatalf("Canonical(%s) = %s, %v; want %s", tt.src, got, err, tt.want)
			}
			again, err := strictjson.Canonical(nil, got, strictjson.Limits{})
			if err != nil || !bytes.Equal(again, got) {
				t.Errorf("Canonical(%s) = %s, %v; want it unchanged", got, again, err)
			}
		})
	}
}

func TestCanonicalAppendsAndLeavesItsInputAlone(t *testing.T) {
	src := []byte(`{"bb":1,"a":{"\u0063":2,"b":3}}`)
	before := bytes.Clone(src)
	dst := append(make([]byte, 0, 4096), "body="...)
	got, err := strictjson.Canonical(dst, src, strictjson.Limits{})
	if want := `body={"a":{"b":3,"c":2},"bb":1}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	if &got[0] != &dst[0] {
		t.Error("dst had room, but the result is elsewhere")
	}
	if !bytes.Equal(src, before) {
		t.Errorf("src is now %s", src)
	}

	got, err = strictjson.Canonical(dst, []byte(`{"b":1,"a":x}`), strictjson.Limits{})
	if err == nil || string(got) != "body=" {
		t.Errorf("after an error dst = %s, %v; want it as it was", got, err)
	}
}

func TestWideAndLongObjectsOutgrowTheirInitialBuffers(t *testing.T) {
	var src, want strings.Builder
	for i := range 26 * 26 {
		j := 26*26 - 1 - i
		src.WriteString(`,"k` + string(rune('a'+j/26)) + string(rune('a'+j%26)) + `":"` + strings.Repeat("v", j) + `"`)
		want.WriteString(`,"k` + string(rune('a'+i/26)) + string(rune('a'+i%26)) + `":"` + strings.Repeat("v", i) + `"`)
	}
	got, err := strictjson.Canonical(nil, []byte("{"+src.String()[1:]+"}"), strictjson.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("{"+want.String()[1:]+"}", string(got)); diff != "" {
		t.Errorf("sorted object (-want +got):\n%s", diff)
	}
}

func TestLimits(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	digits := strings.Repeat("9", 400)
	limit := strictjson.Limits{MaxDepth: 3, MaxNumberDigits: 5}
	for _, tt := range []struct {
		name, src string
		limits    strictjson.Limits
		code      string // "" if accepted
	}{
		{"the default depth is 64", nested(64), strictjson.Limits{}, ""},
		{"one level more is too deep", nested(65), strictjson.Limits{}, strictjson.CodeTooDeep},
		{"a negative depth is the default", nested(64), strictjson.Limits{MaxDepth: -1}, ""},
		{"arrays and objects count alike", `{"a":[{"b":1}]}`, limit, ""},
		{"an array in an object may be too deep", `{"a":[{"b":[]}]}`, limit, strictjson.CodeTooDeep},
		{"an object in an array may be too deep", `[[[{}]]]`, limit, strictjson.CodeTooDeep},
		{"width is not depth", `[[],[[]],{},[[],[]]]`, limit, ""},
		{"a million brackets are refused", strings.Repeat("[", 1_000_000), strictjson.Limits{}, strictjson.CodeTooDeep},

		{"the default is 400 digits", digits, strictjson.Limits{}, ""},
		{"a sign is not a digit", "-" + digits, strictjson.Limits{}, ""},
		{"one digit more is too many", digits + "0", strictjson.Limits{}, strictjson.CodeNumberOutOfRange},
		{"one digit more after the point is too many", digits + ".0", strictjson.Limits{}, strictjson.CodeNumberOutOfRange},
		{"so it is with a sign", "-" + digits + ".0", strictjson.Limits{}, strictjson.CodeNumberOutOfRange},
		{"digits count on both sides of the point", "123.45", limit, ""},
		{"six digits are more than five", "123.456", limit, strictjson.CodeNumberOutOfRange},
		{"zeros that an exponent adds count", "1e4", limit, ""},
		{"one more is too many", "1e5", limit, strictjson.CodeNumberOutOfRange},
		{"zeros after the point count", "1e-4", limit, ""},
		{"one more of them is too many", "1e-5", limit, strictjson.CodeNumberOutOfRange},
		{"zeros that an exponent takes away do not count", "0.000000001e9", limit, ""},
		{"zero with an exponent is zero", "0e999", limit, ""},
		{"zero with too large a scale is refused", "0e-5", limit, strictjson.CodeNumberOutOfRange},
		{"a large exponent is refused", "1e100000", strictjson.Limits{}, strictjson.CodeNumberOutOfRange},
		{"an endless exponent is refused", "1e" + digits, strictjson.Limits{}, strictjson.CodeNumberOutOfRange},
		{"an endless negative exponent is refused", "1e-" + digits, strictjson.Limits{}, strictjson.CodeNumberOutOfRange},
		{"an endless exponent of zero is refused", "0e" + digits, strictjson.Limits{}, strictjson.CodeNumberOutOfRange},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := strictjson.Canonical(nil, []byte(tt.src), tt.limits)
			if got := code(err); got != tt.code {
				t.Errorf("code = %q, %v; want %q", got, err, tt.code)
			}
		})
	}
}

// code returns the code of err, "" for nil.
func code(err error) string {
	if err == nil {
		return ""
	}
	var e *strictjson.Error
	if !errors.As(err, &e) {
		return "not a *strictjson.Error: " + err.Error()
	}
	return e.Code
}

func TestSame(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{`{"a": [1, "x y"]}`, "{\"a\":[1,\n\"x y\"]}", true},
		{`"x y"`, `"xy"`, false},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, false},
		{`1`, `1.0`, false},
		{`null`, ``, false},
		{`{`, `{`, false},
	} {
		if got := strictjson.Same([]byte(tt.a), []byte(tt.b)); got != tt.want {
			t.Errorf("Same(%s, %s) = %t", tt.a, tt.b, got)
		}
	}
}
