package redrivedb

import (
	"strings"
	"testing"
)

func TestRedrivesClaimByTheTransitionTable(t *testing.T) {
	t.Parallel()
	want := "(m.status || '' = 'PENDING' OR m.status || '' = 'DEAD' AND $4)"
	if !strings.Contains(strings.Join(strings.Fields(claimChosen), " "), want) {
		t.Errorf("%q is not in %s", want, claimChosen)
	}
}

// A new transition of redrives or their items appears in the statements.
func TestStatementsFollowTheTransitionTablesOfRedrives(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		active: "d.state IN ('PENDING', 'RUNNING')", running: "d.state = 'RUNNING'",
		recounts:                 "state = 'HALTED' AND @r.state::varchar = 'PENDING'",
		waiting("i.state || ''"): "i.state || '' = 'WAITING'", taken("i.state"): "i.state = 'TAKEN'",
	} {
		if got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
	want := "done_before = CASE WHEN " + strings.Replace(recounts, "@r.state", "$4", 1) + " THEN done ELSE done_before END,"
	if !strings.Contains(changeRedrive.Text, want) {
		t.Errorf("%q is not in %s", want, changeRedrive.Text)
	}
	for _, statement := range []string{finishItems.Text, lockLost, lockRedrive} {
		if !strings.Contains(statement, "'TAKEN'") {
			t.Errorf("TAKEN is not in %s", statement)
		}
	}
	for _, statement := range []string{waitingLetters, waitingItems, applyItems.Text, storeTaken.Text} {
		if !strings.Contains(statement, "'WAITING'") {
			t.Errorf("WAITING is not in %s", statement)
		}
	}
}
