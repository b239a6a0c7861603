package operator_test

import (
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
)

// The filters of GET /audit would reject a kind that is declared but not listed.
func TestEveryKindIsListedOnce(t *testing.T) {
	source, err := os.ReadFile("operator.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := map[operator.Kind]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\s+\w+\s+Kind = "(\w+)"`).FindAllSubmatch(source, -1) {
		declared[operator.Kind(m[1])] = true
	}
	if len(declared) == 0 || len(declared) != len(operator.Kinds) {
		t.Errorf("%d kinds are declared, %d listed", len(declared), len(operator.Kinds))
	}
	for k := range declared {
		if !slices.Contains(operator.Kinds, k) {
			t.Errorf("%s is not listed", k)
		}
	}
}

// Tenants are sorted by id, not in the order of a map.
func TestRoundIsRecordedInTheOrderOfTenants(t *testing.T) {
	ctx, tally := operator.Tallied(t.Context())
	for n := range byte(40) {
		operator.Took(ctx, uuid.UUID{15: 40 - n}, "sagas_archived", int64(n)+1)
	}
	got := tally.Actions(operator.By{}, "sagas", time.Time{}, uuid.New)
	for i, a := range got {
		if a.TenantID != (uuid.UUID{15: byte(i + 1)}) { //nolint:gosec // there are 40
			t.Fatalf("action %d is of tenant %s", i, a.TenantID)
		}
	}
	if len(got) != 40 {
		t.Errorf("%d actions of 40 tenants", len(got))
	}
}
