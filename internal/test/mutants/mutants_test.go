package mutants

import (
	"errors"
	"os/exec"
	"testing"
	"time"
)

func TestASeedDrawsTheSameRowsAgain(t *testing.T) {
	rows, err := Rows("../../..")
	if err != nil {
		t.Fatal(err)
	}
	first, again := draw(Draw{Seed: 7, N: 50}, rows), draw(Draw{Seed: 7, N: 50}, rows)
	other := draw(Draw{Seed: 8, N: 50}, rows)
	same := 0
	for i := range first {
		if first[i] != again[i] {
			t.Fatalf("row %d is %s, then %s", i, first[i].row, again[i].row)
		}
		if first[i] == other[i] {
			same++
		}
	}
	if len(first) != 50 || same > 25 {
		t.Errorf("%d rows, %d of which another seed draws in the same place", len(first), same)
	}
	if one := draw(Draw{Rows: "X10"}, rows); len(one) != 1 || one[0].row != "X10" {
		t.Errorf("one row: %v", one)
	}
	for _, d := range draw(Draw{Seed: 7, Budget: time.Minute}, rows) {
		if !cheap(d.test) {
			t.Errorf("a budget draws %s, whose test is %s", d.row, d.test)
		}
	}
}

// TestWhatKillsAMutant: only a test that ran to a verdict kills a mutant.
func TestWhatKillsAMutant(t *testing.T) {
	failed := exec.Command("false").Run()
	for _, tt := range []struct {
		out  string
		err  error
		late bool
		want string
	}{
		{"ok  \tskald/db\t0.2s", nil, false, survived},
		{"ok  \tskald/db\t0.2s [no tests to run]", nil, false, noPackage},
		{"--- FAIL: TestA (0.1s)\n    a_test.go:1: 3, want 4\nFAIL\nFAIL\tskald/db\t0.2s", failed, false, killed},
		{"panic: test timed out after 5m0s", failed, false, killed},
		{"FAIL\tskald/db [build failed]", failed, false, broken},
		{"FAIL\tskald/db [setup failed]", failed, false, broken},
		{"--- FAIL: TestA (0.1s)\n    a_test.go:1: make the migrated template database: pq: 23502", failed, false, unusable},
		{"--- FAIL: TestA (0.1s)", failed, true, hung},
		{"signal: killed", failed, false, hung},
		{"", errors.New("go is not there"), false, hung},
	} {
		if got := outcome([]byte(tt.out), tt.err, tt.late); got != tt.want {
			t.Errorf("%q, %v: %s, want %s", tt.out, tt.err, got, tt.want)
		}
	}
}
