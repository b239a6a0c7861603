package chaos

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// fleet controls the worker processes of a run from outside.
type fleet struct {
	w       *world
	dir     string // directory of the journals
	confirm time.Duration
	runs    int // runs that each worker may hold at once

	mu      sync.Mutex
	slots   []*workerSlot   // guarded by mu
	lives   map[string]life // guarded by mu, by journal
	done    map[string]int  // guarded by mu: number of injected faults, by "point what"
	born    int             // guarded by mu
	ending  bool            // guarded by mu: workers are not restarted
	returns sync.WaitGroup
}

// life is the lifetime of a worker process by the monotonic clock.
type life struct {
	end   int64 // 0: it is alive
	stops []span
}

// span is a period by the monotonic clock.
type span struct{ from, to int64 }

// workerSlot keeps one worker process running: it restarts the process after it has ended.
type workerSlot struct {
	h         *fleet
	name      string
	exchanges bool // it reports runs and gets the next ones in a single call

	mu      sync.Mutex
	proc    *process       // guarded by mu
	orders  io.WriteCloser // guarded by mu
	journal string         // guarded by mu
	held    bool           // guarded by mu: it is stopped at present
}

func newFleet(w *world, places, runs int, confirm time.Duration) (*fleet, error) {
	h := &fleet{
		w:       w,
		dir:     filepath.Join(w.dir, "journals"),
		confirm: confirm,
		runs:    runs,
		lives:   map[string]life{},
		done:    map[string]int{},
	}
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return nil, err
	}
	for i := range places {
		h.slots = append(h.slots, &workerSlot{h: h, name: fmt.Sprintf("worker-%d", i+1), exchanges: i%2 == 1})
	}
	return h, nil
}

func (h *fleet) start() error {
	for _, b := range h.slots {
		if err := b.start(); err != nil {
			return err
		}
	}
	return nil
}

// start starts a new worker process.
func (b *workerSlot) start() error {
	h := b.h
	h.mu.Lock()
	h.born++
	name, ending := fmt.Sprintf("%s.%d", b.name, h.born), h.ending
	h.mu.Unlock()
	if ending {
		return nil
	}
	cfg := workerConfig{
		Name:    name,
		Journal: filepath.Join(h.dir, name+".journal"),
		Seed:    h.w.seed ^ uint64(h.born)<<32,
		Runs:    h.runs,
		Confirm: h.confirm,

		Exchanges: b.exchanges,
	}
	for _, n := range h.w.nodes {
		cfg.Nodes = append(cfg.Nodes, n.url)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$") //nolint:gosec // this test binary
	cmd.Env = environment(workerEnv + "=" + string(encode(cfg)))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, told, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout = told
	proc, err := launch(cmd)
	told.Close()
	if err != nil {
		out.Close()
		return err
	}
	b.mu.Lock()
	b.proc, b.orders, b.journal, b.held = proc, in, name+".journal", false
	b.mu.Unlock()
	h.mu.Lock()
	ending = h.ending
	h.mu.Unlock()
	if ending { // set since the check above
		proc.signal(syscall.SIGKILL)
	}
	h.w.log.write("%s: started, pid %d", name, proc.cmd.Process.Pid)
	h.returns.Go(func() { b.listen(out, proc) })
	return nil
}

// listen reads which faults a worker injects into itself. When the worker has ended, listen
// restarts it.
func (b *workerSlot) listen(out *os.File, proc *process) {
	defer out.Close()
	h := b.h
	for lines := bufio.NewScanner(out); lines.Scan(); {
		d, ok := parsePointFault(lines.Text())
		if !ok {
			continue
		}
		h.mu.Lock()
		h.done[d.point+" "+d.what]++
		h.mu.Unlock()
		h.w.log.write("%s: %s", b.name, d)
		switch d.what {
		case toPause:
			b.hold(proc, d.hold, false)
		case toKill:
			h.w.tally.kills.Add(1)
		}
	}
	<-proc.done
	h.mu.Lock()
	l := h.lives[b.journalName()]
	l.end = monotonic()
	h.lives[b.journalName()] = l
	ending := h.ending
	h.mu.Unlock()
	if ending {
		return
	}
	if !proc.killed() {
		h.w.add("harness", "", "", "%s ended by itself: %v", b.name, proc.cmd.ProcessState)
	}
	pause(h.w.t.Context(), time.Duration(proc.cmd.Process.Pid%16)*100*time.Millisecond)
	if err := b.start(); err != nil {
		h.w.add("harness", "", "", "%v", err)
	}
}

func (b *workerSlot) journalName() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.journal
}

// hold continues a stopped worker after d; if send is set, it stops the worker first.
func (b *workerSlot) hold(proc *process, d time.Duration, send bool) {
	b.mu.Lock()
	if b.held || b.proc != proc {
		b.mu.Unlock()
		return
	}
	b.held = true
	name := b.journal
	b.mu.Unlock()
	from := monotonic()
	if send {
		proc.signal(syscall.SIGSTOP)
	}
	b.h.w.tally.stops.Add(1)
	b.h.returns.Go(func() {
		select {
		case <-proc.done:
		case <-time.After(d):
		}
		b.h.mu.Lock()
		l := b.h.lives[name]
		// If the worker stopped itself, it did so a moment before we noticed.
		l.stops = append(l.stops, span{from - int64(50*time.Millisecond), monotonic()})
		b.h.lives[name] = l
		b.h.mu.Unlock()
		b.mu.Lock()
		if b.proc == proc {
			b.held = false
		}
		b.mu.Unlock()
		proc.signal(syscall.SIGCONT)
	})
}

// order tells a worker to inject a fault into itself at a point.
func (b *workerSlot) order(d pointFault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintln(b.orders, d) //nolint:errcheck // a dead worker can't read it
}

// kill kills a worker from outside, wherever it is in its work.
func (b *workerSlot) kill() {
	b.mu.Lock()
	proc := b.proc
	b.mu.Unlock()
	b.h.w.log.write("%s: SIGKILL", b.name)
	b.h.w.tally.kills.Add(1)
	proc.signal(syscall.SIGKILL)
	<-proc.done
}

// stop pauses a worker from outside.
func (b *workerSlot) stop(d time.Duration) {
	b.mu.Lock()
	proc := b.proc
	b.mu.Unlock()
	b.h.w.log.write("%s: SIGSTOP for %s", b.name, d)
	b.hold(proc, d, true)
}

// count returns how often a fault was injected; d is "point what".
func (h *fleet) count(d string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.done[d]
}

// end kills all workers permanently and returns the lives of all worker processes.
func (h *fleet) end() map[string]life {
	h.mu.Lock()
	h.ending = true
	slots := slices.Clone(h.slots)
	h.mu.Unlock()
	for _, b := range slots {
		b.mu.Lock()
		proc := b.proc
		b.mu.Unlock()
		if proc != nil {
			proc.signal(syscall.SIGKILL)
		}
	}
	h.returns.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lives
}
