package measure

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// stopGrace is how long a child may take to stop after SIGTERM.
const stopGrace = 20 * time.Second

// child is a process that runs until it is stopped.
type child struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // how it ended; read it only after done
}

// startChild starts cmd in its own process group, so that Ctrl-C reaches only the run, which
// then stops its children in order. If the run itself is killed, the kernel ends the child
// where it can.
func startChild(name string, cmd *exec.Cmd) (*child, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	c := &child{name: name, cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel considers this thread, not its process, the child's parent: the thread
		// must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		c.err = cmd.Wait()
		close(c.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stop asks the process to end, and kills it when it does not. Only an orderly end is not an
// error; stop may be called twice.
func (c *child) stop() error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("kill %s: %w", c.name, err)
		}
		<-c.done
		return fmt.Errorf("%s did not stop within %s and was killed", c.name, stopGrace)
	}
	if c.err != nil {
		return fmt.Errorf("%s did not stop cleanly: %w", c.name, c.err)
	}
	return nil
}

// endedWithin is ended for a process that may be dying: its connections are reset before its
// end is visible.
func (c *child) endedWithin(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
	}
	return c.ended()
}

// ended returns an error when the process has ended, otherwise nil.
func (c *child) ended() error {
	select {
	case <-c.done:
		return fmt.Errorf("%s ended unexpectedly: %v", c.name, c.err) //nolint:errorlint // nil after exit 0
	default:
		return nil
	}
}

// environment is this process's without its SKALD_ settings, which would make runs
// incomparable, and with extra.
func environment(extra ...string) []string {
	var kept []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "SKALD_") {
			kept = append(kept, pair)
		}
	}
	return append(kept, extra...)
}
