package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func runScaling(t *testing.T, mood string, more ...string) (string, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = scaling(t.Context(), append([]string{
		"-skald", self, "-server-env", "FAKE_MOOD=" + mood, "-rounds", "2", "-duration", "30ms",
		"-steps", "3", "-payloads", "100,200", "-in-flight", "1,2", "-stored", "0",
	}, more...), &out)
	return out.String(), err
}

func TestScalingPrintsEachSeries(t *testing.T) {
	out, err := runScaling(t, "good")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for what, rows := range map[string][]string{
		"sagas stored before": {"| 0 |"}, "steps": {"| 3 |"}, "sagas in flight": {"| 1 |", "| 2 |"},
		"bytes of payload": {"| 100 |", "| 200 |"},
	} {
		_, table, found := strings.Cut(out, "| "+what+" |")
		table, _, _ = strings.Cut(table, "\n\n")
		if lines := strings.Count(table, "\n| "); !found || lines != len(rows) || strings.Count(table, "█ |") != len(rows) {
			t.Errorf("the table of %s has %d rows, want %d:\n%s", what, lines, len(rows), table)
		}
		for _, row := range rows {
			if !strings.Contains(table, "\n"+row) {
				t.Errorf("no row %s in the table of %s:\n%s", row, what, table)
			}
		}
	}
}

func TestScalingFailsWhenASagaIsLost(t *testing.T) {
	out, err := runScaling(t, "wrong")
	if err == nil || !strings.Contains(err.Error(), "LOST") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestScalingRefusesWhatItCannotMeasure(t *testing.T) {
	for _, args := range [][]string{
		{"-steps", "0"}, {"-payloads", "99"}, {"-in-flight", "0"}, {"-stored", "-1"}, {"-stored", ""}, {"-rounds", "0"},
		{"-duration", "0s"}, {"-steps", "three"}, {"more"},
	} {
		if out, err := runScaling(t, "good", args...); err == nil {
			t.Errorf("%q was measured:\n%s", args, out)
		}
	}
}
