package jobrun_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/jobrun"
)

var update = flag.Bool("update", false, "rewrite the table of settings in docs/jobs.md")

const (
	settingsPage  = "../../docs/jobs.md"
	settingsBegin = "<!-- settings: rendered from internal/jobrun/settings.go; go test ./internal/jobrun -run Manual -update -->\n"
	settingsEnd   = "<!-- end of settings -->\n"
)

// TestTheManualHasTheTableOfSettings keeps the users' description of settings consistent with the
// server's settings.
func TestTheManualHasTheTableOfSettings(t *testing.T) {
	var table strings.Builder
	table.WriteString("| Setting | Default | Minimum, maximum | Takes effect at the | Meaning |\n|---|---|---|---|---|\n")
	units := map[string]string{"seconds": " s", "hours": " hours", "days": " days", "count": ""}
	for _, s := range jobrun.SettingsList {
		fmt.Fprintf(&table, "| `%s` | %v%s | %v, %v | %s | %s |\n",
			s.Name, s.Default, units[s.Unit], s.Min, s.Max, s.Effect, s.Description)
	}
	page, err := os.ReadFile(settingsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(page), settingsBegin)
	_, after, ends := strings.Cut(rest, settingsEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for the table of settings", settingsPage)
	}
	want := before + settingsBegin + table.String() + settingsEnd + after
	switch {
	case string(page) == want:
	case *update:
		if err := os.WriteFile(settingsPage, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s does not say of the settings what the server says; run this test with -update", settingsPage)
	}
}

// TestNoInternalCodesReachUsers ensures that texts for users do not contain numbers of
// requirements.
func TestNoInternalCodesReachUsers(t *testing.T) {
	code := regexp.MustCompile(`\b[AJSWX]-?[0-9]{1,2}\b`)
	for _, s := range jobrun.SettingsList {
		if found := code.FindString(s.Description); found != "" {
			t.Errorf("the meaning of %s has the internal code %s", s.Name, found)
		}
	}
	for _, file := range []string{"../../openapi.yaml", "../../docs/workers.md", "../../docs/jobs.md",
		"../../docs/schedules.md", "../../docs/saga-jobs.md", "../../docs/problems.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if found := code.FindString(line); found != "" && !strings.Contains(line, "S3") {
				t.Errorf("%s:%d has the internal code %s: %s", file, i+1, found, strings.TrimSpace(line))
			}
		}
	}
}
