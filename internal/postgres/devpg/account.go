package devpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// An account is the user that PostgreSQL runs as. PostgreSQL refuses to run as root, and initdb
// also refuses users without a passwd entry (containers with an arbitrary uid).
type account struct {
	name     string // for messages
	uid, gid int    // as seen by this process; they own the files
	// If namespace is set, PostgreSQL runs in a user namespace in which our own uid has the name
	// "nobody". To the rest of the system, including file permissions, it has our uid, so it needs
	// no chown and can traverse every directory that we can.
	namespace bool
}

// accounts lists the users that a new server may run as, best first.
func accounts() []account {
	self := account{name: "the current user", uid: os.Getuid(), gid: os.Getgid()}
	if self.uid != 0 {
		if _, err := user.LookupId(strconv.Itoa(self.uid)); err == nil {
			return []account{self}
		}
		return append(namespaced(self), self) // self is last because its error is initdb's own message
	}
	var list []account
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 == nil && err2 == nil && uid != 0 {
			list = append(list, account{name: name, uid: uid, gid: gid})
			break
		}
	}
	return append(list, namespaced(self)...)
}

// accountsOf lists the users as which a server on existing data may run: the owner of the data.
func accountsOf(pgdata string) ([]account, error) {
	info, err := os.Stat(pgdata)
	if err != nil {
		return nil, err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, fmt.Errorf("cannot determine who owns %s", pgdata)
	}
	var list []account
	for _, a := range accounts() {
		if a.uid == int(owner.Uid) {
			list = append(list, a)
		}
	}
	if len(list) == 0 && os.Getuid() == 0 {
		list = append(list, account{name: fmt.Sprintf("uid %d", owner.Uid), uid: int(owner.Uid), gid: int(owner.Gid)})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s belongs to uid %d, but this process runs as uid %d: run it as that user, or choose another directory",
			pgdata, owner.Uid, os.Getuid())
	}
	return list, nil
}

// command prepares a PostgreSQL program to run as a, in dir. The program gets almost none of our
// environment, which may contain secrets.
func (a account) command(dir, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	if path, ok := os.LookupEnv("LD_LIBRARY_PATH"); ok {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+path)
	}
	cmd.SysProcAttr = a.sysProcAttr()
	return cmd
}

// probe reports whether a can work in dir and run the binaries in bin. Trying is the only reliable
// check, because permissions, ACLs, seccomp and container limits all matter.
func (a account) probe(ctx context.Context, dir, bin string) error {
	_, err := run(ctx, a.command(dir, filepath.Join(bin, "postgres"), "--version"))
	if err == nil || ctx.Err() != nil {
		return err
	}
	// The kernel's "permission denied" names the program even if the directory is the problem.
	if closed := errors.Join(a.closedDir(dir), a.closedDir(bin)); closed != nil && !a.namespace {
		return fmt.Errorf("as %s: %w", a.name, closed)
	}
	return fmt.Errorf("as %s: %w", a.name, err)
}

// closedDir returns an error that names the first directory on the path to dir, including dir,
// which the mode bits deny to a; nil if there is none.
func (a account) closedDir(dir string) error {
	way := "/"
	for _, part := range strings.Split(dir, "/") {
		way = filepath.Join(way, part)
		info, err := os.Stat(way)
		if err != nil {
			return err
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return nil
		}
		enter := os.FileMode(0o001)
		switch {
		case int(owner.Uid) == a.uid:
			enter = 0o100
		case int(owner.Gid) == a.gid:
			enter = 0o010
		}
		if info.Mode()&enter == 0 {
			return fmt.Errorf("the permissions of the directory %s (mode %04o) do not let this user through", way, info.Mode().Perm())
		}
	}
	return nil
}

// own makes a the owner of path. Only root can do this, and only root needs to.
func (a account) own(path string) error {
	if a.uid == os.Getuid() {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}
