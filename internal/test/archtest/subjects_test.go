package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSubjectsOfCommitsAreChecked runs the step of `make lint` that checks the subjects of new
// commits.
func TestSubjectsOfCommitsAreChecked(t *testing.T) {
	for _, tt := range []struct {
		name, subject, problem string
	}{
		{"short", "saga: a run that gave up says why", ""},
		{"two packages", "ui, docs: pages in plain English", ""},
		{"72 columns", "saga: " + strings.Repeat("x", 66), ""},
		{"72 columns of two bytes each", "saga: " + strings.Repeat("ü", 66), ""},
		{"73 columns", "saga: " + strings.Repeat("x", 67), "73 columns"},
		{"73 columns, some of two bytes", "saga: " + strings.Repeat("x", 66) + "ü", "73 columns"},
		{"no package", "make it work", "not of the form"},
		{"nothing after the package", "saga: ", "not of the form"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "subjects")
			if err := os.WriteFile(file, []byte(tt.subject+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("sh", "scripts/subjects.sh")
			cmd.Dir, cmd.Env = "../../..", append(os.Environ(), "SUBJECTS="+file)
			out, err := cmd.CombinedOutput()
			if (err == nil) != (tt.problem == "") || !strings.Contains(string(out), tt.problem) {
				t.Errorf("%v, %q; want %q", err, out, tt.problem)
			}
		})
	}
}
