package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testprogram"
)

// stubbed starts the stub as a process that answers later, and returns its URL and its process id.
func stubbed(t *testing.T, after time.Duration) (url string, pid int) {
	t.Helper()
	stub := exec.CommandContext(t.Context(), program, "participant", "stub", "--listen", "127.0.0.1:0",
		"--rate", "later=1", "--after", after.String())
	out, err := stub.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := stub.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stub.Process.Kill(); _ = stub.Wait() })
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the stub does not say where it listens")
	}
	return lines.Text()[strings.Index(lines.Text(), "http://"):], stub.Process.Pid
}

// The command and a participant are separate processes that communicate only through calls and
// reports.
func TestCertifyLaterAndTheStub(t *testing.T) {
	t.Parallel()
	url, _ := stubbed(t, time.Second)
	out, code := run(t, nil, "participant", "certify", "--later", "--later-for", patience.Limit.String(),
		"--effects", url, url)
	if code != 0 || !strings.Contains(out, "Only calls that are answered later were tested") ||
		!strings.Contains(out, "vectors played: 3, not tried: 2; findings: 0") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// The stub keeps everything in memory and is killed during its work. That is detected exactly once.
func TestCertifyLaterKillsTheStub(t *testing.T) {
	t.Parallel()
	var out string
	var code int
	for after := time.Second; after < time.Minute; after *= 4 { // it must take longer than the restart
		url, pid := stubbed(t, after)
		dir := t.TempDir()
		file := filepath.Join(dir, "pid")
		if err := os.WriteFile(file, []byte(strconv.Itoa(pid)), 0o600); err != nil {
			t.Fatal(err)
		}
		again := fmt.Sprintf(`kill -9 $(cat %[1]s)
while kill -0 $(cat %[1]s) 2>/dev/null && ! grep -q '^State:.Z' /proc/$(cat %[1]s)/status; do sleep 0.01; done
%[2]s participant stub --listen %[3]s --rate later=1 --after %[4]s >/dev/null 2>&1 &
echo $! >%[1]s`, file, program, strings.TrimPrefix(url, "http://"), after)
		script := testprogram.Write(t, dir, "restart.sh", []byte(again), 0o700)
		t.Cleanup(func() { killFrom(t, file) })
		out, code = run(t, nil, "participant", "certify", "--later", "--later-for", (after + 15*time.Second).String(),
			"--restart-command", "sh "+script, "--effects", url, url)
		if !strings.Contains(out, "the work was finished before") {
			break
		}
	}
	if code != 1 || strings.Count(out, "BREACH ") != 1 || !strings.Contains(out, "BREACH later_never_reported_after_restart") ||
		!strings.Contains(out, "vectors played: 5, not tried: 0; findings: 1") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// killFrom kills the process whose id is in a file.
func killFrom(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}
