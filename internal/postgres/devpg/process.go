package devpg

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/skald-saga/skald/internal/loop"
)

// A process is a child that was started. A goroutine waits for its exit.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has exited
	err  error         // how the process exited; set before done is closed
}

// launch starts cmd. The kernel sends the parent-death signal to a child when the *thread* that
// started it ends, so the goroutine that starts it is locked to its thread and stays until the
// child has exited.
func launch(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run starts cmd, waits for it and returns its output. If ctx ends first, cmd is interrupted.
func run(ctx context.Context, cmd *exec.Cmd) (string, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 5 * time.Second // a grandchild may hold the pipe
	p, err := launch(cmd)
	if err != nil {
		return "", err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.abort()
		return out.String(), ctx.Err()
	}
	if p.err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", cmd.Path, p.err, strings.TrimSpace(out.String()))
	}
	return out.String(), nil
}

// quitGrace is how long an immediate shutdown (without a checkpoint) may take. PostgreSQL kills its
// own children after 5 s.
const quitGrace = 10 * time.Second

// end stops the child and returns when it has exited. It requests a fast shutdown (SIGINT: no new
// work, checkpoint, clean exit) and, when ctx ends, an immediate one (SIGQUIT: crash recovery at
// the next start). It reports whether the fast shutdown was enough.
func (p *process) end(ctx context.Context) bool {
	select {
	case <-p.done: // it has already exited, even if ctx has ended
		return true
	default:
	}
	p.signal(syscall.SIGINT)
	select {
	case <-p.done:
		return true
	case <-ctx.Done():
	}
	p.signal(syscall.SIGQUIT)
	if !loop.Await(context.Background(), quitGrace, p.done) {
		p.signal(syscall.SIGKILL)
		<-p.done
	}
	return false
}

// abort stops a server that is not serving yet.
func (p *process) abort() {
	ctx, cancel := context.WithTimeout(context.Background(), quitGrace)
	defer cancel()
	p.end(ctx)
}

// signal fails only if the child has already exited.
func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }
