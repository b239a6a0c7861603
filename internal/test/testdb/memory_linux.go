package testdb

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

const tmpfs = 0x01021994 // the f_type of statfs(2)

// inMemory returns an in-memory file system with room for the servers of a whole test run, or "" if
// there is none. A copy of the template has some six hundred files: creating and removing them on a
// disk takes ten times the CPU time, more than anything else in many tests. Containers have only 64
// MB there by default, which is too little.
func inMemory() string {
	const dir, room = "/dev/shm", 4 << 30 // a server needs 0.1 to 0.4 GB
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil || fs.Type != tmpfs || fs.Bavail*uint64(fs.Bsize) < room {
		return ""
	}
	if memoryAvailable() < 2*room {
		return ""
	}
	return dir
}

// memoryAvailable returns the kernel's estimate of the memory that programs can still allocate.
func memoryAvailable() (bytes uint64) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			if _, err := fmt.Sscan(rest, &bytes); err == nil {
				return bytes << 10
			}
		}
	}
	return 0
}
