//go:build unix

package jobworker

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/skald-saga/skald/internal/jobrun"
)

// ownGroup starts a program in its own process group, which gets SIGTERM when the run is over.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// endGroup kills the remaining processes of the group.
func endGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // ESRCH means that no process is left
	}
}

// used returns the resources that a program and its children have used.
func used(p *os.ProcessState) (r jobrun.Resources) {
	r.CPUSecondsTotal = new((p.UserTime() + p.SystemTime()).Seconds())
	u, ok := p.SysUsage().(*syscall.Rusage)
	if !ok {
		return r
	}
	unit := int64(1024) // the unit of Maxrss
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		unit = 1
	}
	const block = 512
	//nolint:unconvert // 32 bits elsewhere
	r.PeakRSSBytes = new(int64(u.Maxrss) * unit)
	//nolint:unconvert // 32 bits elsewhere
	r.IOReadBytes, r.IOWriteBytes = new(int64(u.Inblock)*block), new(int64(u.Oublock)*block)
	return r
}
