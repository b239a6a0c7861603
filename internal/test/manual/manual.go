// Package manual runs the examples on the pages of the manual as they are printed: the sh blocks
// below a heading, in order, in one shell, against the real program. The test fails if a command
// fails or if its output differs from the one on the page. The tests of the pages are in this
// package.
//
//	manual.Session{Page: "docs/dlq.md", Heading: "A session", Env: …}.Run(t)
//
// How a page is read:
//
//   - Blocks ```sh and ```bash are run by bash with errexit and pipefail. To show a failure, a
//     page writes `… || echo "exit status $?"`.
//   - A block ``` or ```json that follows them, with only blank lines in between, is what they
//     print to stdout. Ids, times and API keys may differ; an ellipsis (…) stands for anything.
//     JSON is compared by value.
//   - Blocks in other languages (```text, ```yaml, ```ini, ```sql) are not run, nor is a block
//     below the line <!-- not run: why -->.
//   - Whatever a command leaves running in the background ends with the session.
package manual

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Session is one heading of one page.
type Session struct {
	Page    string   // relative to the root of the repository
	Heading string   // "": the whole page
	Dir     string   // where the commands run; "": an empty directory
	Env     []string // NAME=value, added to this process's environment; PATH includes skald
	// Replace maps texts that a page has to print but a test can't use, such as "127.0.0.1:8080",
	// to replacements. They are replaced in commands, and the replacement is reverted in the
	// output. Prefer a variable that the page documents.
	Replace map[string]string
	Masks   []Mask
	Timeout time.Duration // default: 3 min
}

// Run runs the session and returns the output of each block.
func (s Session) Run(t *testing.T) []string {
	t.Helper()
	outputs, problems := s.run(t)
	for _, p := range problems {
		t.Error(p)
	}
	if len(problems) > 0 {
		t.FailNow() // the rest of the test depends on this session
	}
	return outputs
}

// run is Run, but returns problems instead of failing the test.
func (s Session) run(t *testing.T) (outputs, problems []string) {
	t.Helper()
	blocks, err := section(s.path(t), s.Heading)
	if err != nil {
		t.Fatal(err)
	}
	if s.Dir == "" {
		s.Dir = t.TempDir()
	}
	if s.Timeout == 0 {
		s.Timeout = 3 * time.Minute
	}
	files := t.TempDir()
	name := func(kind string, n int) string { return filepath.Join(files, fmt.Sprintf("%s%d", kind, n)) }
	script := "set -e -o pipefail\n"
	for i, b := range blocks {
		if err := os.WriteFile(name("block", i), []byte(replacer(s.Replace, false).Replace(b.script)), 0o600); err != nil {
			t.Fatal(err)
		}
		// Processes that a block leaves in the background continue to write to that block's files.
		script += fmt.Sprintf("exec >'%s' 2>'%s'\n. '%s'\n", name("out", i), name("err", i), name("block", i))
	}
	ended := s.shell(t, script)

	outputs = make([]string, len(blocks))
	reached := -1
	for i, b := range blocks {
		out, err := os.ReadFile(name("out", i))
		if err != nil {
			break // this block never started
		}
		reached = i
		outputs[i] = replacer(s.Replace, true).Replace(string(out))
		if b.kind == noOutput || ended != nil && (i == len(blocks)-1 || !exists(name("out", i+1))) {
			continue // nothing to compare, or the block that failed, which is reported below
		}
		if diff := differs(b, outputs[i], s.Masks); diff != "" {
			problems = append(
				problems,
				fmt.Sprintf("%s:%d: the output differs from the page:\n%s%s", s.Page, b.at, diff, said(name("err", i))),
			)
		}
	}
	switch {
	case ended == nil:
	case reached < 0:
		problems = append(problems, fmt.Sprintf("%s: bash: %v", s.Page, ended))
	default:
		b := blocks[reached]
		problems = append(problems, fmt.Sprintf("%s:%d: %v in\n%s--- it printed\n%s%s",
			s.Page, b.line, ended, b.script, outputs[reached], said(name("err", reached))))
	}
	return outputs, problems
}

func (s Session) path(t *testing.T) string {
	if filepath.IsAbs(s.Page) {
		return s.Page
	}
	return filepath.Join(root(t), s.Page)
}

// shell runs a script and then ends every process that it started.
func (s Session) shell(t *testing.T, script string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), s.Timeout)
	defer cancel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err) // without a shell the test would prove nothing
	}
	cmd := exec.CommandContext(ctx, bash, "--norc", "-c", script)
	cmd.Dir = s.Dir
	path := filepath.Dir(Skald(t)) + string(filepath.ListSeparator) + os.Getenv("PATH")
	cmd.Env = slices.Concat(environment(), []string{"PATH=" + path, "PWD=" + s.Dir}, s.Env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	everything := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = everything
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = everything() }()
	err = cmd.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("it did not end within %s", s.Timeout)
	}
	return err
}

// environment returns this process's environment without variables that would change a session.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "SKALD_") || strings.HasPrefix(v, "PG") || strings.HasPrefix(v, "BASH_ENV=") ||
			strings.HasPrefix(v, "http_proxy=") || strings.HasPrefix(v, "HTTP_PROXY=")
	})
}

func replacer(replace map[string]string, back bool) *strings.Replacer {
	var pairs []string
	for _, from := range slices.Sorted(maps.Keys(replace)) {
		if to := replace[from]; back {
			pairs = append(pairs, to, from)
		} else {
			pairs = append(pairs, from, to)
		}
	}
	return strings.NewReplacer(pairs...)
}

// said returns a block's stderr for a report.
func said(path string) string {
	b, err := os.ReadFile(path)
	if err != nil || len(b) == 0 {
		return ""
	}
	const most = 8 << 10
	if len(b) > most {
		b = append([]byte("… "), b[len(b)-most:]...)
	}
	return "\n--- stderr\n" + string(b)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
