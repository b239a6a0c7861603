package testdb

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Freeze stops a server with all its processes, as if its machine were paused or its disk hung:
// connections stay open, the kernel accepts new ones, and nothing is answered. The server continues
// at the end of the test, or when thaw is called.
func Freeze(t testing.TB, pid int) (thaw func()) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil { // first, so that it starts no more
		t.Fatal(err)
	}
	all := append(children(t, pid), pid)
	for _, p := range all {
		_ = syscall.Kill(p, syscall.SIGSTOP) // the process may have ended
	}
	thaw = func() {
		for _, p := range all {
			_ = syscall.Kill(p, syscall.SIGCONT) // it may have ended here as well
		}
	}
	t.Cleanup(thaw)
	return thaw
}

// children returns the processes that a process has started.
func children(t testing.TB, of int) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // the process has ended
		}
		// The format is "pid (name) state parent"; the name may contain anything.
		_, rest, _ := strings.Cut(string(stat[max(0, strings.LastIndexByte(string(stat), ')')):]), " ")
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[1] != strconv.Itoa(of) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
