package retry_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/retry"
)

func TestRatioIsBrokenByMoreThanItsShare(t *testing.T) {
	half := retry.Ratio{Max: 0.5, From: 4}
	for _, tt := range []struct {
		of            retry.Ratio
		ended, failed int64
		want          bool
	}{
		{half, 0, 0, false}, {half, 3, 3, false}, {half, 4, 2, false}, {half, 4, 3, true}, {half, 1000, 500, false},
		{half, 1000, 501, true}, {retry.Ratio{Max: 1, From: 1}, 9, 9, false}, {retry.Ratio{From: 1}, 9, 9, false},
		{retry.Ratio{Max: 0.01, From: 1}, 1, 1, true}, {retry.Ratio{Max: 0.01}, 0, 0, false},
	} {
		if got := tt.of.Broken(tt.ended, tt.failed); got != tt.want {
			t.Errorf("%+v of %d with %d failed: %t", tt.of, tt.ended, tt.failed, got)
		}
	}
}
