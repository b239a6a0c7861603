// Package testprogram writes programs for tests to run.
package testprogram

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Write stores a program or script at dir/name with the given permissions and returns its path.
//
// It prevents forks while the file is open: a process that another test starts at that moment would
// inherit the file open for writing, and the kernel would refuse to run the file ("text file busy")
// until that process has executed its own program.
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
