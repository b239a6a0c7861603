// Package testprogram writes programs that a test runs.
package testprogram

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Write stores a program or script at dir/name with the given permissions and returns its path.
//
// It forks nothing meanwhile: a process started in that moment by another test would
// inherit the file open for writing, and until it executes a program of its own the
// kernel refuses to run this one ("text file busy").
func Write(t testing.TB, dir, name string, content []byte, perm os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, content, perm); err != nil {
		t.Fatal(err)
	}
	return path
}
