package dlq_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/skald-saga/skald/internal/dlq"
)

// varying is what Normalised replaces, as an expression. Longest first.
var varying = regexp.MustCompile(`"[^"\n]*"|'[^'\n]*'` + "|`[^`\n]*`" +
	`|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}` +
	`|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?` +
	`|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b|\b0x[0-9a-fA-F]+\b|@[0-9a-fA-F]{4,}\b|\b[0-9a-fA-F]*\d[0-9a-fA-F]*\b|\d+(?:[.,]\d+)*`)

func normalised(message string) string {
	s := varying.ReplaceAllString(message[:min(len(message), 2000)], "#")
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "")
	if len(s) > 500 {
		s = strings.ToValidUTF8(s[:500], "")
	}
	return s
}

var messages = []string{
	"", "order 12345 of customer-77 was refused after 12.5 ms", `could not parse "a \"b" at 0xdeadBEEF of com.example.Foo@1f2e3d4c`,
	"connect 10.0.0.12:5432: refused; 1.2.3.4567, 1.2.3.4:80a, 1.2.3, 1.2.3.4.5", "0198a5b0-0000-7000-8000-000000000002 at 2026-03-04T05:06:07.089Z, 2026-03-04 05:06, 2026-03-04T05:06:07+0100 or -01:00",
	"face the deadbeef 1face face1 _1 a_1 1_a 1e5,000.25,x", "it's 'quoted' and `so`\n'not\nso'", "@abc @abcd @abcdg x@12345", "é1 1é \xff1\xff ０", "0x 0xg 0x1g 00x1", strings.Repeat("9 abc ", 400),
}

func TestWhatVariesInMessagesIsReplaced(t *testing.T) {
	t.Parallel()
	for _, m := range messages {
		if got, want := dlq.Normalised(m), normalised(m); got != want {
			t.Errorf("%q became\n%q, want\n%q", m, got, want)
		}
	}
	if got, want := dlq.Normalised(messages[1]), "order # of customer-# was refused after #.# ms"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// pieces are what messages are made of where the rule has to look closely.
var pieces = []string{
	" ", "a", "f", "g", "x", "0", "1", "12", "255", "1234", "0x", "é", "\xff", "_", "-", ".", ",", ":",
	"+", "@", "\"", "'", "`",
	"\n", "T", "Z", "z", "beef", "2026-03-04", "05:06", ":07", "+01:00", "-0100", "10.0.0.12", ":80",
	"0198a5b0-0000-7000-8000-000000000002", "0198a5b0-0000-7000-8000-00000000000",
}

// Every three pieces side by side, and long chains of them, become what the expression
// makes of them.
func TestAnyMessageIsNormalisedAsTheExpressionSays(t *testing.T) {
	t.Parallel()
	for _, a := range pieces {
		for _, b := range pieces {
			for _, c := range pieces {
				if m := a + b + c; dlq.Normalised(m) != normalised(m) {
					t.Fatalf("%q became %q, want %q", m, dlq.Normalised(m), normalised(m))
				}
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		m := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 12).Draw(t, "pieces"), "")
		if got, want := dlq.Normalised(m), normalised(m); got != want {
			t.Fatalf("%q became %q, want %q", m, got, want)
		}
	})
}

// Errors of one kind differ in what varies, and in nothing else.
func TestMessagesOfOneKindAreOneMessage(t *testing.T) {
	t.Parallel()
	for want, all := range map[string][]string{
		"order # is late":   {"order 1 is late", "order  1\n is\tlate", "order \"x y\" is late", "order `x` is late"},
		"node # is down":    {"node 10.0.0.1 is down", "node 10.0.0.1:80 is down", "node 0xCAFE is down", "node deadbeef1 is down"},
		"at # by #":         {"at 2026-03-04T05:06:07.089Z by 0198a5b0-0000-7000-8000-000000000002", "at 2026-03-04 05:06 by 7"},
		"at # by Foo#":      {"at 2026-03-04T05:06:07+01:00 by Foo@1f2e3d", "at 2026-03-04 05:06:07,089-0100 by Foo@abcd"},
		"it isn't a number": {"it isn't a number", " it  isn't a number "},
		"a face, a bad day": {"a face, a bad day"},
	} {
		for _, m := range all {
			if got := dlq.Normalised(m); got != want {
				t.Errorf("%q became %q, want %q", m, got, want)
			}
		}
	}
	for _, n := range []int{499, 500, 501, 502} { // a character is kept whole or not at all
		if got := dlq.Normalised(strings.Repeat("x", n-1) + "é"); len(got) > 500 || !utf8.ValidString(got) || len(got) < 499 {
			t.Errorf("%d bytes became %d", n+1, len(got))
		}
	}
}

func FuzzMessagesAreNormalisedAsTheExpressionSays(f *testing.F) {
	for _, m := range messages {
		f.Add(m)
	}
	f.Fuzz(func(t *testing.T, m string) {
		if got, want := dlq.Normalised(m), normalised(m); got != want {
			t.Errorf("%q became\n%q, want\n%q", m, got, want)
		}
	})
}
