package accesspages_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// TestASealThatWasKeptIsComparedWithTheSealOfItsNumber runs while a live server keeps adding seals.
// A single verdict states whether the chain is still the one of which the visitor kept a seal, and
// parts that were verified are not checked again.
func TestASealThatWasKeptIsComparedWithTheSealOfItsNumber(t *testing.T) {
	t.Parallel()
	s := uitest.Start(t)
	sealed := 0 // by now
	seal := func() (mark, hash string) {
		t.Helper()
		s.Must(t, "POST", "/api-keys", map[string]any{"name": fmt.Sprint("k", sealed), "role": "auditor"})
		patience.Until(t, "the action is sealed", func() bool {
			head, _ := s.Must(t, "GET", "/audit/verify?trail=actions&limit=1000", nil)["head"].(map[string]any)
			n, is := head["seq"].(json.Number)
			if !is || n.String() == fmt.Sprint(sealed) {
				return false
			}
			hash = head["hash"].(string)
			mark = n.String() + ":" + hash
			return true
		})
		seq, _, _ := strings.Cut(mark, ":")
		_, _ = fmt.Sscan(seq, &sealed)
		return mark, hash
	}
	first, firstHash := seal()
	pageOf(t, s, "/ui/audit/verify?trail=actions", 200, "from seal 1.")
	second, _ := seal()
	for _, tt := range []struct{ query, want string }{
		{"", "; 1 seal has been added since and is correct. This is the end"},
		{"", "Everything up to seal 2 was verified "},
		{"&from_seq=1", "2 seals checked, from seal 1. This is the end"},
		{"&kept=" + first, "Seal 1 is the one you kept, and 1 seal after it"},
		{"&kept=+" + strings.ToUpper(first) + "+", "Seal 1 is the one you kept"},
		{"&kept=" + second, "Seal 2 is the one you kept."},
		{"&kept=2:" + firstHash, "the hash of the seal differs from the kept hash"},
		{"", "; no seal has been added since."},
		{"&kept=3:" + firstHash, "the chain ends before the kept seal"},
	} {
		page := pageOf(t, s, "/ui/audit/verify?trail=actions"+tt.query, 200, tt.want)
		bad := strings.Contains(tt.want, "the kept ")
		if good := strings.Contains(page, "No tampering was found"); good == bad || strings.Count(page, `class="box `) != 1 {
			t.Errorf("%s: not one verdict:\n%s", tt.query, page)
		}
	}
	pageOf(t, s, "/ui/audit/verify?trail=actions&kept=nothing", 400, "kept")
}
