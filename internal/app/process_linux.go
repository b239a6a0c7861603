package app

import (
	"fmt"
	"os"
	"strings"
)

// thisProcess names this process among all processes of all machines: the boot of
// its machine, its namespace of processes (that of its container), its number in
// it, and when it began. "" when the kernel does not say.
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

// isGone tells of a process whose name came from thisProcess that it certainly has
// ended: it ran here, in this boot and namespace, and is not there any more. Of
// those elsewhere nothing is known.
func isGone(process string) bool {
	own, other := strings.Fields(thisProcess()), strings.Fields(process)
	if len(own) != 4 || len(other) != 4 || own[0] != other[0] || own[1] != other[1] {
		return false
	}
	return processBegan(other[2]) != other[3]
}

// processBegan returns the start time of a process as the kernel counts it (field
// 22 of proc(5) stat), "" when there is no such process, or a zombie only.
func processBegan(pid string) string {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return ""
	}
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	return fields[19]
}
