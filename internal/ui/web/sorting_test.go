package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/ui/web"
)

// TestAListIsSortedByItsHeadings checks that the heading by which a list is sorted reverses the
// order, and that any other heading sorts by its column. A list with a prefix filter is sorted by
// that filter.
func TestAListIsSortedByItsHeadings(t *testing.T) {
	filters := []web.Filter{{Name: "key", Prefix: "key_prefix"}, {Name: "state"}}
	for url, want := range map[string]struct{ sent, sorted, name, created, ended string }{
		"": {"", "newest first",
			"?sort=key ", "?order=asc descending", "?sort=ended_at "},
		"?order=asc": {"order=asc", "oldest first",
			"?sort=key ", "? ascending", "?sort=ended_at "},
		"?order=desc": {"order=desc", "newest first",
			"?sort=key ", "?order=asc descending", "?sort=ended_at "},
		"?sort=ended_at&state=x&cursor=c": {"cursor=c&sort=ended_at&state=x", "latest  first",
			"?sort=key&state=x ", "?state=x ", "?order=asc&sort=ended_at&state=x descending"},
		"?sort=key": {"sort=key", "by key",
			"?order=desc&sort=key ascending", "? ", "?sort=ended_at "},
		"?sort=key&order=desc": {"order=desc&sort=key", "by key, backwards",
			"?sort=key descending", "? ", "?sort=ended_at "},
		"?key=a*": {"key_prefix=a", "by key",
			"?key=a%2A&order=desc ascending", " ", " "},
		"?key=a*&sort=ended_at&order=desc": {"key_prefix=a&order=desc", "by key, backwards",
			"?key=a%2A descending", " ", " "},
		"?key_prefix=a%25":  {"key_prefix=a%25", "by key", "?key=a%25%2A&order=desc ascending", " ", " "},
		"?key=*":            {"key=%2A", "newest first", "?key=%2A&sort=key ", "?key=%2A&order=asc descending", "?key=%2A&sort=ended_at "},
		"?filter=key:a*":    {"key_prefix=a", "by key", "?key=a%2A&order=desc ascending", " ", " "},
		"?key=a&sort=bogus": {"key=a&sort=bogus", "by bogus", "?key=a&sort=key ", "?key=a ", "?key=a&sort=ended_at "},
	} {
		l := visitOf("/ui/things"+url).NewList([]web.View{{Name: "All"}}, filters)
		if got := l.Sent().Encode(); got != want.sent {
			t.Errorf("%s: sent %s, want %s", url, got, want.sent)
		}
		if got := l.Sorted(); got != want.sorted {
			t.Errorf("%s: %q, want %q", url, got, want.sorted)
		}
		for by, want := range map[string]string{"key": want.name, "created_at": want.created, "ended_at": want.ended} {
			h := l.Head(by, "Label")
			if got := h.URL + " " + h.Sorted; got != want || (h.Class == "time") == (by == "key") {
				t.Errorf("%s: heading %s leads to %q, want %q, class %q", url, by, got, want, h.Class)
			}
		}
		kept := fmt.Sprint(l.Kept)
		for _, name := range []string{"sort", "order"} {
			if strings.Contains(url, name+"=") != strings.Contains(kept, name) {
				t.Errorf("%s: the form keeps %s", url, kept)
			}
		}
	}
}
