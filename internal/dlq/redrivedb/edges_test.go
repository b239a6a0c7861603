package redrivedb

import (
	"strings"
	"testing"
)

func TestRedrivesClaimByTheTransitionTable(t *testing.T) {
	t.Parallel()
	if want := "(m.status || '' = 'PENDING' OR m.status || '' = 'DEAD' AND $4)"; !strings.Contains(claimChosen, want) {
		t.Errorf("%q is not in %s", want, claimChosen)
	}
}
