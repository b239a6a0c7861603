package app

import (
	"fmt"
	"os"
	"strings"
)

// thisProcess returns a name that is unique across machines and processes: the machine's boot ID,
// the PID namespace (the container's), the PID in it, and the start time. It returns "" if the
// kernel does not provide these.
func thisProcess() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	begun := processBegan(fmt.Sprint(os.Getpid()))
	if begun == "" {
		return ""
	}
	return strings.Join([]string{strings.TrimSpace(string(boot)), space, fmt.Sprint(os.Getpid()), begun}, " ")
}

// isGone reports whether a process named by thisProcess has definitely exited: it ran on this
// machine, in this boot and namespace, and no longer exists. It returns false for processes
// elsewhere.
func isGone(process string) bool {
	own, other := strings.Fields(thisProcess()), strings.Fields(process)
	if len(own) != 4 || len(other) != 4 || own[0] != other[0] || own[1] != other[1] {
		return false
	}
	return processBegan(other[2]) != other[3]
}

// processBegan returns the kernel's start time of a process (field 22 of proc(5) stat), or "" if
// there is no such process or it is a zombie.
func processBegan(pid string) string {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return ""
	}
	// The name, in parentheses, may contain spaces and parentheses.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	return fields[19]
}
