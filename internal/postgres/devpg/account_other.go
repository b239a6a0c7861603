//go:build unix && !linux

package devpg

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// namespaced returns no accounts: there are no user namespaces on this platform.
func namespaced(account) []account { return nil }

// sysProcAttr returns attributes for a child that does not receive Ctrl-C from our terminal. There
// is no parent-death signal on this platform.
func (a account) sysProcAttr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a.uid != os.Getuid() {
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attr
}

// serves reports whether process pid looks like a PostgreSQL server on pgdata, judging by its name
// or by the directory among its arguments.
func serves(pid int, pgdata string) bool {
	out, err := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(string(out), pgdata)
}
