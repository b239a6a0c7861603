package manual

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/test/patience"
)

func TestASessionIsOneShellThatStopsAtTheFirstFailure(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, page string
		problems   []string // a substring of each expected problem
	}{
		{"variables last", "'''sh\nA=1\ncd /\n'''\n'''sh\necho $A $PWD $B\n'''\n'''\n1 / two\n'''\n", nil},
		{"what is printed differs", "'''sh\necho 1\n'''\n'''\n2\n'''\n'''sh\necho 3\n'''\n'''\n4\n'''\n", []string{"printed\n1", "printed\n3"}},
		{"a command fails", "'''sh\necho why >&2\nfalse\necho more\n'''\n'''sh\ntouch after\n'''\n", []string{"why"}},
		{"in a pipe", "'''sh\nfalse | cat\n'''\n", []string{"exit status 1"}},
		{"a shell that leaves", "'''sh\nexit 7\n'''\n", []string{"exit status 7"}},
		{"bad syntax", "'''sh\nif\n'''\n", []string{"syntax error"}},
		{"too long", "'''sh\nsleep 600\n'''\n", []string{"did not end within"}},
		{"the program", "'''sh\nskald --help | grep -o 'migrate status'\n'''\n'''\nmigrate status\n'''\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			s := Session{Page: write(t, "# P\n"+tt.page), Heading: "P", Dir: dir, Env: []string{"B=two"}}
			if tt.name == "too long" {
				Skald(t)
				s.Timeout = 300 * time.Millisecond
			}
			_, problems := s.run(t)
			if len(problems) != len(tt.problems) {
				t.Fatalf("%d problems, want %d: %q", len(problems), len(tt.problems), problems)
			}
			for i, want := range tt.problems {
				if !strings.Contains(problems[i], want) {
					t.Errorf("%q does not say %q", problems[i], want)
				}
			}
			if exists(filepath.Join(dir, "after")) {
				t.Error("it went on after a failure")
			}
		})
	}
}

func TestWhatASessionLeavesRunningEndsWithIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	Session{Page: write(t, "# P\n'''sh\nsleep 600 & echo $! >pid\n'''\n"), Heading: "P", Dir: dir}.Run(t)
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	state := func() string { // a zombie counts as ended, because it depends on the machine's init when it is reaped
		stat, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(text)), "stat"))
		if err != nil {
			return "gone"
		}
		return strings.Fields(string(stat)[strings.LastIndex(string(stat), ")")+1:])[0]
	}
	patience.Until(t, "process "+string(text)+" ends", func() bool { got := state(); return got == "gone" || got == "Z" })
}
