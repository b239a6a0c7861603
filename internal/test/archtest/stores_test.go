package archtest

import (
	"slices"
	"strings"
	"testing"
)

// TestStoresMakeNoIDsAndNoRandomNumbers: what a store writes is decided beforehand, or by a rule
// that the store calls while it holds a lock. Ids and random numbers are therefore arguments of the
// call or come from postgres.DB.NewID.
func TestStoresMakeNoIDsAndNoRandomNumbers(t *testing.T) {
	stores := map[string]bool{}
	for _, f := range files(t) {
		if f.test || !strings.HasSuffix(f.pkg, "db") || !strings.HasPrefix(f.pkg, "internal/") {
			continue
		}
		stores[f.pkg] = true
		if slices.Contains(f.imports, "math/rand/v2") || slices.Contains(f.imports, "math/rand") {
			t.Errorf("%s imports math/rand", f.path)
		}
		for _, effect := range effects(f.syntax) {
			if strings.HasPrefix(effect, "uuid.") {
				t.Errorf("%s has %s", f.path, effect)
			}
		}
	}
	if len(stores) < 6 {
		t.Errorf("only these stores were found: %v", stores)
	}
}
