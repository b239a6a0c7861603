package chaos

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/skald-saga/skald/internal/test/testnet"
)

// node is one Skald node of a run across all its processes: it keeps its name and port.
type node struct {
	w    *world
	name string
	addr string
	url  string
	log  *nodeLog
	env  []string // for this node only, in addition to the common environment
	bin  string   // "": the world's

	mu      sync.Mutex
	proc    *process // guarded by mu: the latest process; nil before the first
	mayExit bool     // guarded by mu: the end of this process is expected
}

func newNode(w *world, name string) (*node, error) {
	addr, err := testnet.Free()
	if err != nil {
		return nil, err
	}
	log, err := openNodeLog(filepath.Join(w.dir, name+".log"))
	return &node{w: w, name: name, addr: addr, url: "http://" + addr, log: log}, err
}

// start starts a new process and returns immediately. extra is added to its environment.
func (n *node) start(extra ...string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log.newLife()
	cmd := exec.Command(cmp.Or(n.bin, n.w.bin), "serve")
	cmd.Dir = n.w.dir // so that no configuration file of the working directory is read
	cmd.Stderr = n.log
	cmd.Env = append(environment(
		"SKALD_DATABASE_URL="+n.w.db.dsn(),
		"SKALD_LISTEN_ADDR="+n.addr,
		"SKALD_NODE_ID="+n.name,
		"SKALD_LEASE_TTL="+n.w.plan.lease.String(),
		"SKALD_REAPER_INTERVAL=200ms",
		"SKALD_ENGINE_SLOW_STEP_AFTER=100ms", // so that RUNNING rows are written as well
	), slices.Concat(n.w.env, n.env, extra)...)
	proc, err := launch(cmd)
	if err != nil {
		return fmt.Errorf("start %s: %w", n.name, err)
	}
	n.proc, n.mayExit = proc, false
	n.w.log.write("%s: started, pid %d", n.name, proc.cmd.Process.Pid)
	go n.supervise(proc)
	return nil
}

// supervise reports a process that ends unexpectedly.
func (n *node) supervise(proc *process) {
	<-proc.done
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc == proc && !n.mayExit {
		n.w.add("node", "", "", "%s ended by itself: %v", n.name, proc.cmd.ProcessState)
	}
}

// alive returns the process if the node is up.
func (n *node) alive() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc == nil || n.mayExit || n.proc.ended() {
		return nil
	}
	return n.proc
}

// take hands the process to the one caller that will end it. It returns nil if there is none.
func (n *node) take() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mayExit = true
	return n.proc
}

// end sends sig to the node and returns when the node is down. If the node is already down, it does
// nothing.
func (n *node) end(sig syscall.Signal) {
	if proc := n.take(); proc != nil {
		proc.signal(sig)
		<-proc.done
	}
}

// awaitReady returns nil once the node is ready, or an error if the node or ctx ends first.
func (n *node) awaitReady(ctx context.Context) error {
	proc := n.alive()
	for proc != nil && !proc.ended() {
		if n.ready(ctx) {
			return nil
		}
		if !pause(ctx, 10*time.Millisecond) {
			return fmt.Errorf("%s is not ready: %w", n.name, ctx.Err())
		}
	}
	return fmt.Errorf("%s ended before it was ready; see its log in %s", n.name, n.w.dir)
}

func (n *node) ready(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url+"/readyz", nil)
	if err != nil {
		return false
	}
	res, err := n.w.http.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return res.StatusCode == http.StatusOK
}
