//go:build !failpoints

package failpoint_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/failpoint"
)

func TestOrdinaryBinaryHasNoFailpoints(t *testing.T) {
	if failpoint.Enabled {
		t.Error("they are enabled without the build tag")
	}
	if err := failpoint.Configure(""); err != nil {
		t.Errorf("nothing configured: %v", err)
	}
	if err := failpoint.Configure("step.before_send=err"); err == nil {
		t.Error("a rule is accepted that will never act")
	}
	for _, name := range failpoint.All {
		if err := failpoint.Hit(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
