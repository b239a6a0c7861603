package secrets

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/skald-saga/skald/internal/saga/expression"
	"github.com/skald-saga/skald/internal/secret/keeper"
)

// forms returns the ways in which the value of a secret may appear in the answer of a participant
// that repeats it, the longest first: unchanged; in JSON, including JSON inside a JSON string; in a
// URL or a form; in HTML; in hex; and in base64, alone and at any position within longer text. For
// a value with a scheme before it, such as "Basic dXNlcjpwYXNzd29yZA==", it also returns the
// decoded credentials and the password in them.
func forms(value string) []string {
	var all []string
	for _, plain := range meanings(value) {
		for _, q := range quoted(plain) {
			all = append(append(all, q), quoted(q)...)
		}
		all = append(all, plain, html.EscapeString(plain), string(expression.PercentEncoded(nil, plain)),
			url.QueryEscape(plain), url.PathEscape(plain), hex.EncodeToString([]byte(plain)),
			strings.ToUpper(hex.EncodeToString([]byte(plain))))
		all = append(all, lowerEscapes(all[len(all)-5:len(all)-2])...)
		all = append(all, inBase64(plain)...)
	}
	all = slices.DeleteFunc(all, func(s string) bool { return len(s) < keeper.MinLength })
	return longestFirst(all)
}

// longestFirst sorts forms and removes duplicates. A form that contains another one is replaced
// before it.
func longestFirst(all []string) []string {
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(all)
}

// meanings returns a value and the secrets that it contains: the credentials after a scheme,
// decoded, and the password.
func meanings(value string) []string {
	all := []string{value}
	credentials := value
	if _, after, has := strings.Cut(value, " "); has && !strings.Contains(after, " ") {
		credentials = after
		all = append(all, after)
	}
	if plain, err := base64.StdEncoding.DecodeString(credentials); err == nil {
		if _, password, has := strings.Cut(string(plain), ":"); has {
			all = append(all, string(plain), password)
		}
	}
	return all
}

// quoted returns the ways in which most programs write a text inside a JSON string: with few
// escapes, with those for HTML, and with all non-ASCII characters escaped.
func quoted(s string) (all []string) {
	var few, ascii bytes.Buffer
	e := json.NewEncoder(&few)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a UTF-8 string can always be encoded as JSON
	for _, r := range few.String() {
		if r < 0x80 {
			ascii.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&ascii, "\\u%04x", unit)
		}
	}
	of := func(j string) string { return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(j), `"`), `"`) }
	markup, _ := json.Marshal(s)
	all = append(all, of(few.String()), of(string(markup)), of(ascii.String()))
	return append(all, strings.ReplaceAll(all[0], "/", `\/`))
}

// lowerEscapes returns URL-encoded texts with lower-case digits in their escapes.
func lowerEscapes(texts []string) (all []string) {
	for _, s := range texts {
		b := []byte(s)
		for i := 0; i+2 < len(b); i++ {
			if b[i] == '%' {
				copy(b[i+1:i+3], strings.ToLower(s[i+1:i+3]))
				i += 2
			}
		}
		all = append(all, string(b))
	}
	return all
}

// inBase64 returns the base64 forms of a text, alone and inside longer text. Inside longer text it
// starts at one of three positions in a group, and the characters at its ends depend on the
// neighboring text.
func inBase64(s string) (all []string) {
	for _, code := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for lead := range 3 {
			b := code.EncodeToString([]byte(strings.Repeat("\x00", lead) + s))
			from, to := []int{0, 2, 3}[lead], len(b)
			if (lead+len(s))%3 != 0 {
				to--
			}
			if from < to {
				all = append(all, b[from:to])
			}
		}
	}
	return all
}
