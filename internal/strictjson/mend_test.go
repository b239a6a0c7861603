package strictjson_test

import (
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/strictjson"
)

func TestDamagedTextsAreMendedOnlyWhereTheyMayBe(t *testing.T) {
	may := func(path []string) bool { return strings.Join(path, "/") == "error/message" || path[0] == "list" }
	for in, want := range map[string]string{
		`{"error":{"message":"a"}}`:                               `{"error":{"message":"a"}}`,
		`{"error":{"message":"a\u0000b"}}`:                        `{"error":{"message":"a` + "\uFFFD" + `b"}}`,
		"{\"error\":{\"message\":\"a\x00b\xff\xfec\"}}":           `{"error":{"message":"a` + "\uFFFDb\uFFFDc" + `"}}`,
		`{"error":{"message":"\ud800\ud800x\udc00"}}`:             `{"error":{"message":"` + "\uFFFD\uFFFDx\uFFFD" + `"}}`,
		`{"error":{"message":"\ud83d\ude00"}}`:                    `{"error":{"message":"😀"}}`,
		`{"list":["a",{"b":"\u0000"}]}`:                           `{"list":["a",{"b":"` + "\uFFFD" + `"}]}`,
		`{"list":[["\u0000"],1,"\ud800"]}`:                        `{"list":[["` + "\uFFFD" + `"],1,"` + "\uFFFD" + `"]}`,
		`{"error":{"code":"\u0000"}}`:                             strictjson.CodeNULCharacter,
		`{"error":{"message":{"x":"\ud800"}}}`:                    strictjson.CodeLoneSurrogate,
		"{\"other\":\"\xff\"}":                                    strictjson.CodeInvalidUTF8,
		`{"list":{"a\u0000":1}}`:                                  strictjson.CodeNULCharacter,
		`{"list":["\u0000","\uZZZZ"]}`:                            strictjson.CodeSyntax,
		`{"list":["\u0000"` + "\n" + `],"list":1}`:                strictjson.CodeDuplicateKey,
		`{"error":{"message":"\u0000"},"a":["\u0000"]}`:           strictjson.CodeNULCharacter,
		`{"error":{"message":"\u0000"},"list":"` + "\n" + `"}`:    strictjson.CodeSyntax,
		`{"error":{"message":"\u0000"},"list":1e400,"x":"` + `"}`: strictjson.CodeNumberOutOfRange,
	} {
		out, err := strictjson.Mended(nil, []byte(in), strictjson.Limits{}, may)
		var e *strictjson.Error
		got := string(out)
		if err != nil {
			e = err.(*strictjson.Error) //nolint:errorlint // as it is documented
			got = e.Code
		}
		if got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
		if err == nil {
			if again, err := strictjson.Canonical(nil, out, strictjson.Limits{}); err != nil || string(again) != got {
				t.Errorf("%q: what was mended is not canonical: %v", in, err)
			}
		}
	}
}
