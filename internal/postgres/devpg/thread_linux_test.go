package devpg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// The kernel considers the thread that forked the parent, and Go ends threads.
func TestServerOutlivesTheThreadThatStartedIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	type result struct {
		s      *Server
		err    error
		thread int
	}
	started := make(chan result)
	go onLastThread(func() {
		s, err := Start(t.Context(), Config{Dir: dir, Settings: volatile})
		started <- result{s, err, syscall.Gettid()}
	})
	r := <-started
	if r.err != nil {
		t.Fatal(r.err)
	}
	t.Cleanup(func() { stop(t, r.s) })
	for {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", r.thread))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		runtime.Gosched()
	}
	if got := ask(t, r.s, `SELECT 'still here'`); got != "still here" {
		t.Errorf("the server answers %q", got)
	}
	if log := logOf(t, dir); strings.Contains(log, "shutdown request") {
		t.Errorf("the end of a thread stopped the server:\n%s", log)
	}
}

// onLastThread calls f on a thread that ends with the calling goroutine.
func onLastThread(f func()) {
	runtime.LockOSThread() // a locked thread is not used again
	if syscall.Gettid() != os.Getpid() {
		f()
		return
	}
	// But Go parks the main thread instead of ending it. Keep it busy, so that the next
	// goroutine gets another one.
	defer runtime.UnlockOSThread()
	done := make(chan struct{})
	go func() {
		defer close(done)
		onLastThread(f)
	}()
	<-done
}
