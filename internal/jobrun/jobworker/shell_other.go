//go:build !unix

package jobworker

import (
	"os"
	"os/exec"

	"github.com/skald-saga/skald/internal/jobrun"
)

func ownGroup(*exec.Cmd) {}

func endGroup(*exec.Cmd) {}

func used(p *os.ProcessState) (r jobrun.Resources) {
	r.CPUSecondsTotal = new((p.UserTime() + p.SystemTime()).Seconds())
	return r
}
