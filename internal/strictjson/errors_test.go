package strictjson_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/strictjson"
)

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name, src string
		code      string
		offset    int
		pointer   string
	}{
		{"nothing", ``, strictjson.CodeEmpty, 0, ""},
		{"blanks only", " \r\n\t", strictjson.CodeEmpty, 4, ""},

		{"a second value", `{} {}`, strictjson.CodeTrailingData, 3, ""},
		{"a word after a word", `truefalse`, strictjson.CodeTrailingData, 4, ""},
		{"a bracket too many", "[1]]\n", strictjson.CodeTrailingData, 3, ""},
		{"a raw NUL after the value", "1\x00", strictjson.CodeTrailingData, 1, ""},

		{"an unknown word", `[0,nil]`, strictjson.CodeSyntax, 3, "/1"},
		{"half a word", `tru`, strictjson.CodeSyntax, 0, ""},
		{"an unknown character", `{"a":?}`, strictjson.CodeSyntax, 5, "/a"},
		{"a byte order mark", "\uFEFF{}", strictjson.CodeSyntax, 0, ""},
		{"a raw NUL between values", "[1,\x002]", strictjson.CodeSyntax, 3, "/1"},
		{"a blank that is none in JSON", "[1,\u00a02]", strictjson.CodeSyntax, 3, "/1"},
		{"an open array", `[1,2`, strictjson.CodeSyntax, 4, ""},
		{"an array open after a comma", `[1,`, strictjson.CodeSyntax, 3, "/1"},
		{"a comma too many in an array", `[1,]`, strictjson.CodeSyntax, 3, "/1"},
		{"a comma missing in an array", `{"a":[1 2]}`, strictjson.CodeSyntax, 8, "/a"},
		{"an array closed as an object", `[1}`, strictjson.CodeSyntax, 2, ""},
		{"an open object", `{"a":1`, strictjson.CodeSyntax, 6, ""},
		{"a comma too many in an object", `{"a":1,}`, strictjson.CodeSyntax, 7, ""},
		{"a comma missing in an object", `{"a":1 "b":2}`, strictjson.CodeSyntax, 7, ""},
		{"a key without quotes", `{"x":{a:1}}`, strictjson.CodeSyntax, 6, "/x"},
		{"a key that is a number", `{1:1}`, strictjson.CodeSyntax, 1, ""},
		{"a key without colon", `{"a" 1}`, strictjson.CodeSyntax, 5, ""},
		{"a key without value", `{"a":}`, strictjson.CodeSyntax, 5, "/a"},
		{"an open string", `["a`, strictjson.CodeSyntax, 3, "/0"},
		{"a string open after a backslash", `"a\`, strictjson.CodeSyntax, 3, ""},
		{"an unknown escape", `["ok\x41"]`, strictjson.CodeSyntax, 4, "/0"},
		{"an escape that is not hexadecimal", `"\u00g0"`, strictjson.CodeSyntax, 1, ""},
		{"an escape with a sign", `"\u+123"`, strictjson.CodeSyntax, 1, ""},
		{"an escape cut short", `"\u12"`, strictjson.CodeSyntax, 1, ""},
		{"a line feed in a string", "{\"a\":\"x\ny\"}", strictjson.CodeSyntax, 7, "/a"},
		{"a control character in a key", "{\"a\":{\"x\x1f\":1}}", strictjson.CodeSyntax, 8, "/a"},
		{"a plus sign", `+1`, strictjson.CodeSyntax, 0, ""},
		{"a minus sign alone", `[-]`, strictjson.CodeSyntax, 2, "/0"},
		{"a minus sign at the end", `-`, strictjson.CodeSyntax, 1, ""},
		{"zeros before a number", `[1,-012]`, strictjson.CodeSyntax, 4, "/1"},
		{"no digit before the point", `.5`, strictjson.CodeSyntax, 0, ""},
		{"no digit after the point", `[1.]`, strictjson.CodeSyntax, 3, "/0"},
		{"no digit in the exponent", `[1e+]`, strictjson.CodeSyntax, 4, "/0"},
		{"an exponent at the end", `1e`, strictjson.CodeSyntax, 2, ""},
		{"infinity", `{"a":-Infinity}`, strictjson.CodeSyntax, 6, "/a"},

		{"a stray byte in a string", "{\"a\":\"日\xffx\"}", strictjson.CodeInvalidUTF8, 9, "/a"},
		{"a stray byte in a key", "{\"a\xff\":1}", strictjson.CodeInvalidUTF8, 3, ""},
		{"a stray byte between values", "[1,\xff]", strictjson.CodeInvalidUTF8, 3, "/1"},
		{"a character cut short by the quote", "\"\xe6\x97\"", strictjson.CodeInvalidUTF8, 1, ""},
		{"a character cut short by the end", "\"\xe6\x97", strictjson.CodeInvalidUTF8, 1, ""},
		{"a character cut short by an escape", "\"\xe6\\n\"", strictjson.CodeInvalidUTF8, 1, ""},
		{"an overlong solidus", "\"\xc0\xaf\"", strictjson.CodeInvalidUTF8, 1, ""},
		{"a surrogate in UTF-8", "\"\xed\xa0\x80\"", strictjson.CodeInvalidUTF8, 1, ""},
		{"a character beyond Unicode", "\"\xf4\x90\x80\x80\"", strictjson.CodeInvalidUTF8, 1, ""},

		{"an escaped NUL", `{"a":["x\u0000"]}`, strictjson.CodeNULCharacter, 8, "/a/0"},
		{"an escaped NUL in a key", `{"a":{"\u0000":1}}`, strictjson.CodeNULCharacter, 7, "/a"},
		{"a raw NUL in a string", "[\"a\x00b\"]", strictjson.CodeNULCharacter, 3, "/0"},

		{"a high surrogate alone", `["\ud800"]`, strictjson.CodeLoneSurrogate, 2, "/0"},
		{"a low surrogate alone", `"a\uDFFF"`, strictjson.CodeLoneSurrogate, 2, ""},
		{"two high surrogates", `"\ud83d\ud83d\ude00"`, strictjson.CodeLoneSurrogate, 1, ""},
		{"a high surrogate before another escape", `"\ud83d\u0041"`, strictjson.CodeLoneSurrogate, 1, ""},
		{"a high surrogate before a character", `"\ud83dxxxxxx"`, strictjson.CodeLoneSurrogate, 1, ""},
		{"a pair the wrong way round", `"\ude00\ud83d"`, strictjson.CodeLoneSurrogate, 1, ""},
		{"a lone surrogate in a key", `{"\ud800":1}`, strictjson.CodeLoneSurrogate, 2, ""},

		{"the same key again", `{"a":1,"a":1}`, strictjson.CodeDuplicateKey, 7, "/a"},
		{"the same key later", `{"b":1,"a":2,"c":3,"b":4}`, strictjson.CodeDuplicateKey, 19, "/b"},
		{"the earliest of several repetitions", `{"c":1,"a":2,"c":3,"a":4,"a":5}`, strictjson.CodeDuplicateKey, 13, "/c"},
		{"the same key spelled differently", `[{"x":{"a":1,"\u0061":2}}]`, strictjson.CodeDuplicateKey, 13, "/0/x/a"},
		{"a duplicate key before another fault of its object", `{"a":1,"a":2,}`, strictjson.CodeSyntax, 13, ""},
		{"a duplicate key before a fault outside its object", `[{"a":1,"a":2},]`, strictjson.CodeDuplicateKey, 8, "/0/a"},
		{"an empty key twice", `{"":1,"":2}`, strictjson.CodeDuplicateKey, 6, "/"},

		{"a deep value", `{"a":` + strings.Repeat("[", 64) + `]`, strictjson.CodeTooDeep, 68, "/a" + strings.Repeat("/0", 63)},
		{"a large number", `{"a":[0,-1e400]}`, strictjson.CodeNumberOutOfRange, 8, "/a/1"},
		{"a long number", `[1.` + strings.Repeat("0", 400) + `]`, strictjson.CodeNumberOutOfRange, 1, "/0"},

		{"a pointer escapes its tokens", `{"a/b~c":[?]}`, strictjson.CodeSyntax, 10, "/a~1b~0c/0"},
		{"a pointer holds the decoded key", `{"\u00e9\n":[?]}`, strictjson.CodeSyntax, 13, "/é\n/0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := strictjson.Canonical(nil, []byte(tt.src), strictjson.Limits{})
			var e *strictjson.Error
			if !errors.As(err, &e) {
				t.Fatalf("Canonical(%q): %v, want a *strictjson.Error", tt.src, err)
			}
			if e.Code != tt.code || e.Offset != tt.offset || e.Pointer != tt.pointer {
				t.Errorf("Canonical(%q): %s at %d, pointer %q (%s); want %s at %d, pointer %q",
					tt.src, e.Code, e.Offset, e.Pointer, e.Detail, tt.code, tt.offset, tt.pointer)
			}
			if e.Detail == "" {
				t.Error("no detail")
			}
		})
	}
}

func TestPointersStayShort(t *testing.T) {
	long := strings.Repeat("k", 300)
	for _, tt := range []struct {
		name, src, want string
	}{
		{"512 bytes are whole", `{"` + long + `":{"` + long[:210] + `":?}}`, "/" + long + "/" + long[:210]},
		{"more are cut to an enclosing value", `{"` + long + `":{"` + long[:211] + `":?}}`, "/" + long},
		{"a cut may fall after 512 bytes", `{"` + long + `":{"` + long[:210] + `":[?]}}`, "/" + long + "/" + long[:210]},
		{"a cut falls between tokens", `{"a":{"` + long + `":{"` + long + `":?}}}`, "/a/" + long},
		{"one huge key leaves the document", `{"` + long + long + `":?}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := strictjson.Canonical(nil, []byte(tt.src), strictjson.Limits{})
			var e *strictjson.Error
			if !errors.As(err, &e) || e.Pointer != tt.want {
				t.Errorf("error %+v; want pointer %q", e, tt.want)
			}
		})
	}
}

func TestErrorTextHoldsNothingOfTheDocument(t *testing.T) {
	for _, src := range []string{`{"secret":1,"secret":2}`, `{"secret":secret}`, `{"secret":"\ud800secret"}`,
		`{"secret":{} secret`} {
		_, err := strictjson.Canonical(nil, []byte(src), strictjson.Limits{})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("Canonical(%s): %v; want an error that does not quote it", src, err)
		}
	}
	_, err := strictjson.Canonical(nil, []byte(`{"a":1,"a":2}`), strictjson.Limits{})
	if want := "invalid JSON at byte 7: the object already has this key (duplicate_key)"; err.Error() != want {
		t.Errorf("error text = %q, want %q", err, want)
	}
}
