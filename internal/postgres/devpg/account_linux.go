package devpg

import (
	"bytes"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// namespaced returns self in a user namespace.
func namespaced(self account) []account {
	self.name += " in a user namespace"
	self.namespace = true
	return []account{self}
}

// sysProcAttr returns attributes for a child that does not receive Ctrl-C from our terminal, so
// that it serves until we have drained, and that is asked to stop when we die.
func (a account) sysProcAttr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGINT}
	switch {
	case a.namespace:
		nobody := nobodyID()
		attr.Cloneflags = syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: a.uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: a.gid, Size: 1}}
	case a.uid != os.Getuid():
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attr
}

// nobodyID is the uid of the user "nobody": initdb requires a passwd entry for its user.
func nobodyID() int {
	const usual = 65534
	u, err := user.Lookup("nobody")
	if err != nil {
		return usual
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil || uid == 0 {
		return usual
	}
	return uid
}

// serves reports whether process pid is a PostgreSQL server on pgdata, or a child of one: all of
// them have pgdata as their working directory. A zombie has no working directory.
func serves(pid int, pgdata string) bool {
	cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil || cwd != pgdata {
		return false
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && bytes.HasPrefix(comm, []byte("postgres"))
}
