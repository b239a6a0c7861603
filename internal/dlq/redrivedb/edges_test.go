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

// An edge more in the tables of redrives and their items shows in the statements.
func TestStatementsAskTheTablesOfRedrives(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		active: "d.state IN ('PENDING', 'RUNNING')", running: "d.state = 'RUNNING'",
		recounts:                 "state = 'HALTED' AND $5::text = 'PENDING'",
		waiting("i.state || ''"): "i.state || '' = 'WAITING'", taken("i.state"): "i.state = 'TAKEN'",
	} {
		if got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
	if want := "done_before = CASE WHEN " + recounts + " THEN done ELSE done_before END,"; !strings.Contains(changeRedrive,
		want) {
		t.Errorf("%q is not in %s", want, changeRedrive)
	}
	for _, statement := range []string{finishItems, lockLost, lockRedrive} {
		if !strings.Contains(statement, "'TAKEN'") {
			t.Errorf("TAKEN is not in %s", statement)
		}
	}
	for _, statement := range []string{waitingLetters, waitingItems, applyItems, storeTaken} {
		if !strings.Contains(statement, "'WAITING'") {
			t.Errorf("WAITING is not in %s", statement)
		}
	}
}
