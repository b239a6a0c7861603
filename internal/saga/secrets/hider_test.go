package secrets

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/skald-saga/skald/internal/strictjson"
)

// ways are the ways in which participants repeat a value that they received.
var ways = map[string]func(string) string{
	"as it is":               func(s string) string { return s },
	"in a sentence":          func(s string) string { return "the key " + s + " is unknown" },
	"in JSON in a string":    func(s string) string { b, _ := json.Marshal(map[string]string{"key": s}); return string(b) },
	"in a URL":               func(s string) string { return "/a?k=" + url.QueryEscape(s) + "&b" },
	"in a path":              func(s string) string { return "/a/" + url.PathEscape(s) + "/b" },
	"in a URL in lower case": func(s string) string { return lowerEscapes([]string{url.QueryEscape(s)})[0] },
	"in HTML":                func(s string) string { return "<b>" + html.EscapeString(s) + "</b>" },
	"in hex":                 func(s string) string { return hex.EncodeToString([]byte(s)) },
	"in base64":              func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"as a password":          func(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte("ann:"+s)) },
	"in base64 of a text":    func(s string) string { return base64.URLEncoding.EncodeToString([]byte("{\"a\":\"" + s + "\"}")) },
}

// plainIn decodes the text from which an answer may have been built, to search it for a secret by a
// different method than the hider's.
func plainIn(s string) string {
	all := s
	if u, err := url.QueryUnescape(s); err == nil {
		all += "\n" + u
	}
	if u, err := url.PathUnescape(s); err == nil {
		all += "\n" + u
	}
	if b, err := hex.DecodeString(s); err == nil {
		all += "\n" + string(b)
	}
	for _, code := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		if b, err := code.DecodeString(strings.TrimPrefix(s, "Basic ")); err == nil {
			all += "\n" + string(b)
		}
	}
	var inner map[string]string
	if json.Unmarshal([]byte(s), &inner) == nil {
		for k, v := range inner {
			all += "\n" + k + "\n" + v
		}
	}
	return all + "\n" + html.UnescapeString(s)
}

func TestASecretIsHiddenHoweverItIsRepeated(t *testing.T) {
	for way, repeat := range ways {
		t.Run(way, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				secret := rapid.StringMatching(`[a-zA-Z0-9!"#$%&'()*+,/:;<=>?@\\_{|}~é予-]{8,40}`).Draw(t, "secret")
				h := newHider(1, map[string][]string{"key": {secret}})
				answer := repeat(secret)
				if !strings.Contains(plainIn(answer), secret) {
					t.Fatalf("the test does not see %q in %q", secret, answer)
				}
				if got := h.Text(answer); strings.Contains(plainIn(got), secret) {
					t.Fatalf("%q shows %q", got, secret)
				}
				doc, err := strictjson.Encode(map[string]any{"a": []any{answer, 1}, answer: nil, "z": "«secret:key»"})
				if err != nil {
					t.Fatal(err)
				}
				hidden, found := h.JSON(doc)
				var got map[string]any
				if err := json.Unmarshal(hidden, &got); err != nil || !found {
					t.Fatalf("%s: %v", hidden, err)
				}
				for name, v := range got {
					text := name
					if list, isList := v.([]any); isList {
						text += "\n" + list[0].(string)
					}
					if strings.Contains(plainIn(text), secret) {
						t.Fatalf("%s shows %q", hidden, secret)
					}
				}
			})
		})
	}
}

func TestWhatIsHiddenOfAValueWithAScheme(t *testing.T) {
	value := "Basic " + base64.StdEncoding.EncodeToString([]byte("ann:correct horse"))
	h := newHider(1, map[string][]string{"login": {value}})
	for _, answer := range []string{
		value, strings.TrimPrefix(value, "Basic "), "ann:correct horse", "bad password correct horse",
	} {
		if got := h.Text(answer); strings.Contains(got, "horse") || strings.Contains(got, value[6:]) {
			t.Errorf("%q is shown as %q", answer, got)
		}
	}
}

func TestANumberWithASecretBecomesAString(t *testing.T) {
	h := newHider(1, map[string][]string{"pin": {"1234567890"}})
	for j, want := range map[string]string{
		`{"a":1234567890}`:            `{"a":"«secret:pin»"}`,
		`[-12345678901.5,1234]`:       `["-«secret:pin»1.5",1234]`,
		`{"1234567890":"1234567890"}`: `{"«secret:pin»":"«secret:pin»"}`,
		`{"a":"\\"}`:                  `{"a":"\\"}`,
	} {
		hidden, _ := h.JSON([]byte(j))
		if got := string(hidden); got != want || !json.Valid(hidden) {
			t.Errorf("%s became %s, want %s", j, got, want)
		}
	}
}

// Two secrets may have the same value, and one may contain the other; nothing of either may remain.
func TestSecretsThatOverlap(t *testing.T) {
	h := newHider(1, map[string][]string{"a": {"12345678", "former-a1"}, "b": {"12345678-long"}, "c": {"12345678"}})
	if got := h.Text("12345678-long 12345678 former-a1"); got != "«secret:b» «secret:a» «secret:a»" {
		t.Error(got)
	}
	var none *Hider
	if none.Found([]byte("x")) || none.Text("x") != "x" {
		t.Error("a hider of nothing hides")
	}
}
