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

// forms returns how the value of a secret may look in the answer of a participant that repeats what it got, the longest
// first: as it is; in JSON, also in JSON inside a string of JSON; in a URL or a form; in HTML; in hex; in base64, alone
// and at any place of a longer text. Of a value with a scheme before it, such as "Basic dXNlcjpwYXNzd29yZA==", also the
// credentials, decoded, and the password in them.
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

// longestFirst sorts forms, each once: what contains another form is replaced before it.
func longestFirst(all []string) []string {
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(all)
}

// meanings returns a value and what it says: the credentials after a scheme, decoded, and the password.
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

// quoted is a text inside a string of JSON, as most programs write it: with few escapes, with those of HTML, and with
// all characters escaped that are not ASCII.
func quoted(s string) (all []string) {
	var few, ascii bytes.Buffer
	e := json.NewEncoder(&few)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string of UTF-8 is JSON
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

// lowerEscapes returns URL-encoded texts with the digits of their escapes in lower case.
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

// inBase64 returns what a text becomes in base64, alone and inside of longer text: then it begins at one of three
// places in a group, and the characters at its ends depend on its neighbours.
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
