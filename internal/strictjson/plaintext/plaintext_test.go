package plaintext_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

func TestTextFromOutsideIsCleanedAndCutBetweenCharacters(t *testing.T) {
	long := strings.Repeat("é", 10)
	for name, c := range map[string]struct {
		text string
		most plaintext.Limit
		want string
	}{
		"nothing":                        {"", plaintext.Bytes(3), ""},
		"as it is":                       {"a\nb\tc 💥", plaintext.Bytes(100), "a\nb\tc 💥"},
		"no limit":                       {long, plaintext.Limit{}, long},
		"exactly the limit":              {"abc", plaintext.Bytes(3), "abc"},
		"cut":                            {"abcd", plaintext.Bytes(3), "abc"},
		"cut within a character":         {long, plaintext.Bytes(5), "éé"},
		"a character that does not fit":  {"💥", plaintext.Bytes(3), ""},
		"characters":                     {long, plaintext.Characters(3), "ééé"},
		"exactly so many characters":     {long, plaintext.Characters(10), long},
		"NUL":                            {"a\x00b\x00\x00", plaintext.Bytes(100), "a\uFFFDb\uFFFD\uFFFD"},
		"a run that is not UTF-8":        {"a\xff\xfe\xfdb", plaintext.Bytes(100), "a\uFFFDb"},
		"half a surrogate pair in bytes": {"a\xed\xa0\x80b", plaintext.Bytes(100), "a\uFFFDb"},
		"longer once it is cleaned":      {"\x00\x00", plaintext.Bytes(5), "\uFFFD"},
		"a replacement stays":            {"\uFFFD", plaintext.Bytes(5), "\uFFFD"},
	} {
		got, changed := plaintext.Storable(c.text, c.most)
		if got != c.want || changed != (c.want != c.text) {
			t.Errorf("%s: %q, changed %v; want %q", name, got, changed, c.want)
		}
		if again, changed := plaintext.Storable(got, c.most); again != got || changed {
			t.Errorf("%s: the second time it is %q", name, again)
		}
	}
}

func FuzzStorable(f *testing.F) {
	f.Add("a\x00\xffé💥", 5, true)
	f.Fuzz(func(t *testing.T, s string, n int, characters bool) {
		n = 1 + max(n, -n-1)%100
		most, length := plaintext.Bytes(n), func(s string) int { return len(s) }
		if characters {
			most, length = plaintext.Characters(n), utf8.RuneCountInString
		}
		got, changed := plaintext.Storable(s, most)
		if !utf8.ValidString(got) || strings.ContainsRune(got, 0) || length(got) > n || changed != (got != s) {
			t.Errorf("%q became %q, changed %v", s, got, changed)
		}
	})
}
