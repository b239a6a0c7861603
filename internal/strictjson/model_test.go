package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"sort"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/skald-saga/skald/internal/strictjson"
)

// sample is a document and its canonical form, built together and independently of
// the parser.
type sample struct{ src, want string }

var blanks = rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r\n  "})

// document generates any value within the default limits.
func document(depth int) *rapid.Generator[sample] {
	kinds := []*rapid.Generator[sample]{literals, numbers, strs}
	if depth > 0 {
		inner := rapid.Deferred(func() *rapid.Generator[sample] { return document(depth - 1) })
		kinds = append(kinds, arrays(inner), objects(inner))
	}
	return rapid.Custom(func(t *rapid.T) sample {
		v := rapid.OneOf(kinds...).Draw(t, "value")
		v.src = blanks.Draw(t, "before") + v.src + blanks.Draw(t, "after")
		return v
	})
}

var literals = rapid.Map(
	rapid.SampledFrom([]string{"true", "false", "null"}),
	func(s string) sample { return sample{s, s} },
)

var numbers = rapid.Custom(func(t *rapid.T) sample {
	src := rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})`).Draw(t, "integer")
	scale := 0
	if rapid.Bool().Draw(t, "has a fraction") {
		fraction := rapid.StringMatching(`[0-9]{1,8}|0{1,5}|[0-9]0{1,5}`).Draw(t, "fraction")
		src += "." + fraction
		scale = len(fraction)
	}
	if rapid.Bool().Draw(t, "has an exponent") {
		exponent := rapid.IntRange(-40, 40).Draw(t, "exponent")
		src += fmt.Sprintf(rapid.SampledFrom([]string{"e%d", "E%d", "e%+d", "E%+04d"}).Draw(t, "spelling"), exponent)
		scale = max(0, scale-exponent)
	}
	exact, ok := new(big.Rat).SetString(src)
	if !ok {
		t.Fatalf("generated %q, which is not a number", src)
	}
	return sample{src, exact.FloatString(scale)}
})

var runes = rapid.OneOf(
	rapid.RuneFrom([]rune("\"\\/\b\f\n\r\t\u0001\v\u001f\u007f\u2028é日本\uFFFD\uFFFF😀\U0010FFFF<&")),
	rapid.Int32Range('a', 'e'),
	rapid.Rune().Filter(func(r rune) bool { return r > 0 }),
)

var strs = rapid.Custom(func(t *rapid.T) sample {
	_, s := drawString(t)
	return s
})

// drawString draws a string and one way to write it in JSON.
func drawString(t *rapid.T) (decoded string, s sample) {
	decoded = string(rapid.SliceOfN(runes, 0, 8).Draw(t, "string"))
	return decoded, sample{spell(t, decoded), escapeJSON(decoded)}
}

var short = map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

// spell writes a string as a JSON string, each character in one of the ways that
// JSON allows.
func spell(t *rapid.T, decoded string) string {
	var b strings.Builder
	for _, r := range decoded {
		ways := []string{}
		if esc, ok := short[r]; ok {
			ways = append(ways, esc)
		}
		if r >= ' ' && r != '"' && r != '\\' {
			ways = append(ways, string(r), string(r))
		}
		if r == '/' {
			ways = append(ways, `\/`)
		}
		if r < 0x10000 {
			ways = append(ways, fmt.Sprintf(`\u%04x`, r), fmt.Sprintf(`\u%04X`, r))
		} else {
			ways = append(ways, fmt.Sprintf(`\u%04x\u%04X`, 0xD800+(r-0x10000)>>10, 0xDC00+(r-0x10000)&0x3FF))
		}
		b.WriteString(rapid.SampledFrom(ways).Draw(t, "spelling"))
	}
	return `"` + b.String() + `"`
}

// escapeJSON does what PostgreSQL's escape_json does.
func escapeJSON(s string) string {
	var b strings.Builder
	for _, r := range s {
		if esc, ok := short[r]; ok {
			b.WriteString(esc)
		} else if r < ' ' {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}

func arrays(inner *rapid.Generator[sample]) *rapid.Generator[sample] {
	return rapid.Custom(func(t *rapid.T) sample {
		var src, want []string
		for _, v := range rapid.SliceOfN(inner, 0, 5).Draw(t, "elements") {
			src, want = append(src, v.src), append(want, v.want)
		}
		between := blanks.Draw(t, "in an empty array")
		if len(src) > 0 {
			between = strings.Join(src, ",")
		}
		return sample{"[" + between + "]", "[" + strings.Join(want, ",") + "]"}
	})
}

func objects(inner *rapid.Generator[sample]) *rapid.Generator[sample] {
	return rapid.Custom(func(t *rapid.T) sample {
		var src, keys []string
		members := map[string]string{}
		for range rapid.IntRange(0, 20).Draw(t, "members") {
			key, s := drawString(t)
			if _, ok := members[key]; ok {
				continue
			}
			value := inner.Draw(t, "member")
			keys = append(keys, key)
			members[key] = s.want + ":" + value.want
			src = append(src, blanks.Draw(t, "blank")+s.src+blanks.Draw(t, "blank")+":"+value.src)
		}
		sort.Slice(keys, func(i, j int) bool {
			if len(keys[i]) != len(keys[j]) {
				return len(keys[i]) < len(keys[j])
			}
			return keys[i] < keys[j]
		})
		var want []string
		for _, k := range keys {
			want = append(want, members[k])
		}
		return sample{"{" + strings.Join(src, ",") + "}", "{" + strings.Join(want, ",") + "}"}
	})
}

func TestCanonicalFormOfAnyDocument(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := document(4).Draw(t, "document")
		got, err := strictjson.Canonical(nil, []byte(s.src), strictjson.Limits{})
		if err != nil || string(got) != s.want {
			t.Fatalf("Canonical(%q) = %q, %v; want %q", s.src, got, err, s.want)
		}
		again, err := strictjson.Canonical(nil, got, strictjson.Limits{})
		if err != nil || !bytes.Equal(again, got) {
			t.Fatalf("Canonical(%q) = %q, %v; want it unchanged", got, again, err)
		}
	})
}

func TestEveryPrefixOfADocumentIsRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := objects(document(2)).Draw(t, "document")
		cut := rapid.IntRange(0, len(s.src)-1).Draw(t, "cut")
		if got, err := strictjson.Canonical(nil, []byte(s.src[:cut]), strictjson.Limits{}); err == nil {
			t.Fatalf("Canonical(%q) = %q, want an error", s.src[:cut], got)
		}
	})
}

func TestADuplicateIsFoundWhereverItIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfNDistinct(rapid.StringOfN(runes, 0, 3, -1), 1, 24, rapid.ID[string]).Draw(t, "keys")
		twin := rapid.SampledFrom(keys).Draw(t, "twin")
		first := rapid.IntRange(0, len(keys)).Draw(t, "its place")
		keys = append(keys[:first:first], append([]string{twin}, keys[first:]...)...)

		src, again, seen := "[{", 0, false
		for i, k := range keys {
			if i > 0 {
				src += ","
			}
			if k == twin && seen {
				again = len(src)
			}
			seen = seen || k == twin
			src += spell(t, k) + ":0"
		}
		src += "}]"
		_, err := strictjson.Canonical(nil, []byte(src), strictjson.Limits{})
		var e *strictjson.Error
		pointer := "/0/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(twin)
		if !errors.As(err, &e) || e.Code != strictjson.CodeDuplicateKey || e.Offset != again || e.Pointer != pointer {
			t.Fatalf("Canonical(%q): %+v; want a duplicate key at %d, pointer %q", src, e, again, pointer)
		}
		if !json.Valid([]byte(src)) {
			t.Fatalf("%q also has another fault", src)
		}
	})
}
