//go:build unix

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testprogram"

	"github.com/skald-saga/skald/internal/test/testdb"
)

var withShell = []string{
	"SKALD_JOBS_WORKER_SHELL=true", "SKALD_JOBS_WORKER_SHELL_ALLOW=/bin/sh", "SKALD_JOBS_WORKER_QUEUES=system,shell", "SKALD_LISTEN_ADDR=127.0.0.1:0",
}

// TestProgramsOfJobsRunAsAUserThatIsNotRoot starts the program as root, if the test runs as root,
// and as another user.
func TestProgramsOfJobsRunAsAUserThatIsNotRoot(t *testing.T) {
	env := append([]string{"SKALD_DATABASE_URL=" + testdb.DSN(t)}, withShell...)
	const nobody = 65534
	var user *syscall.Credential
	if os.Geteuid() == 0 {
		out, code := run(t, env, "serve")
		if code != 1 || !strings.Contains(out, "jobs.worker_shell is on and Skald runs as root") ||
			!strings.Contains(out, "start Skald as its own user") {
			t.Errorf("as root: exit %d, %s", code, out)
		}
		user = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	dir, err := os.MkdirTemp("", "skald-nobody-") // t.TempDir is accessible only to its owner
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	binary, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	copied := testprogram.Write(t, dir, "skald", binary, 0o700)
	for _, path := range []string{dir, copied} {
		if err := os.Chmod(path, 0o755); err != nil { //nolint:gosec // for nobody
			t.Fatal(err)
		}
	}
	cmd := exec.Command(copied, "serve")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = "/", append(
		[]string{"PATH=" + os.Getenv("PATH"), "HOME=/"},
		env...), &syscall.SysProcAttr{
		Credential: user,
	}
	logs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	found := make(chan string, 1)
	go func() {
		lines, said := bufio.NewScanner(logs), []string{}
		for url := regexp.MustCompile(`"url":"(http://127\.0\.0\.1:\d+)"`); lines.Scan(); {
			said = append(said, lines.Text())
			if m := url.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
				break
			}
		}
		_, _ = io.Copy(io.Discard, logs)
		select {
		case found <- "it said " + strings.Join(said, "\n"):
		default:
		}
	}()
	base := patience.Receive(t, "it starts, or ends", found)
	if !strings.HasPrefix(base, "http://") {
		t.Fatalf("it does not start: %s", base)
	}
	must(t, "POST", base+"/api/v1/job-definitions",
		`{"name":"who","type":"manual","command_name":"shell","queue":"shell","default_args":{"script":"test $(id -u) != 0"}}`)
	id := must(t, "POST", base+"/api/v1/job-definitions/who/runs", `{"args":{"script":"exit 7"}}`)["id"].(string)
	if run := must(t, "GET", base+"/api/v1/job-runs/"+id+"?wait=60s", ""); run["state"] != "SUCCEEDED" {
		t.Errorf("the run is %v", run)
	}
	page, err := os.ReadFile("../../docs/workers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "### What a program receives\n")
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```\n+```\n(.*?)```").FindStringSubmatch(after)
	if blocks == nil {
		t.Fatal("the page has no example")
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-ec",
		strings.ReplaceAll(blocks[1], "http://127.0.0.1:8080", base)).
		Output()
	if err != nil || !strings.HasSuffix(string(out), blocks[2]) {
		t.Errorf("the example of the page prints %s (%v), and not %s", out, err, blocks[2])
	}
}
