package bench

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

// stopGrace is how long a child may take to stop by itself.
const stopGrace = 20 * time.Second

// child is a process that runs until it is stopped.
type child struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // how it ended; read it only after done
}

// startChild starts cmd in a process group of its own, so that Ctrl-C reaches
// the run alone, which then stops its children in order. Should the run itself
// be killed, the kernel ends the child where it can.
func startChild(name string, cmd *exec.Cmd) (*child, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	c := &child{name: name, cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// What counts as the child's parent is this thread, not the process it
		// belongs to: it must stay as long as the child does.
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

// stop asks the process to end, and makes it end when it does not. Any end but
// an orderly one is an error; stopping twice is not.
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
		return fmt.Errorf("%s did not stop in order: %w", c.name, c.err)
	}
	return nil
}

// endedWithin is ended for a process that may be dying: its connections are reset
// before its end can be seen.
func (c *child) endedWithin(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
	}
	return c.ended()
}

// ended returns an error once the process has ended, and nil before.
func (c *child) ended() error {
	select {
	case <-c.done:
		return fmt.Errorf("%s ended by itself: %v", c.name, c.err) //nolint:errorlint // nil after exit 0
	default:
		return nil
	}
}

// environment is this process's without the SKALD_ settings of whoever runs
// it, which would make two runs incomparable, and with extra on top.
func environment(extra ...string) []string {
	var kept []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "SKALD_") {
			kept = append(kept, pair)
		}
	}
	return append(kept, extra...)
}
