package httpkit_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/httpkit"
)

func TestTheFormatIsTheOneThatTheClientPrefers(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]string{
		"":                                  "application/json",
		"*/*":                               "application/json",
		"image/png":                         "application/json",
		"nonsense":                          "application/json",
		"text/plain":                        "text/plain",
		"Text/Plain; charset=utf-8":         "text/plain",
		"text/*":                            "text/plain",
		"application/xml":                   "application/xml",
		"text/plain;q=0":                    "application/json",
		"text/plain;q=high":                 "application/json",
		"*/*, text/plain":                   "text/plain", // named exactly
		"application/json, text/plain, */*": "application/json",
		"text/plain, application/json":      "application/json", // both as much
		"application/json;q=0.5,text/plain;q=0.7,application/xml;q=0.9":   "application/xml",
		"application/*;q=0.9, application/json;q=0.1, text/plain;q=0.5":   "application/xml",
		"application/json;q=0, */*":                                       "text/plain",
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": "application/xml",
	} {
		if got := httpkit.Preferred(accept, "application/json", "text/plain", "application/xml"); got != want {
			t.Errorf("Accept %q: %s, want %s", accept, got, want)
		}
	}
}
