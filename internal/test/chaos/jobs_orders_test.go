package chaos

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// Points of a worker's life at which a fault can be injected.
const (
	atClaiming   = "claiming"   // a claim is in flight
	atBeating    = "beating"    // a heartbeat is in flight
	atClaimed    = "claimed"    // it has a run but hasn't started it
	atStarting   = "starting"   // a start is in flight
	atRunning    = "running"    // in the middle of the work
	atConfirming = "confirming" // its lease has ended, and Skald considers the run in doubt
	atFinished   = "finished"   // the work is done but not reported yet
	atReporting  = "reporting"  // the report is in flight
)

var workerPoints = []string{
	atClaiming,
	atBeating,
	atClaimed,
	atStarting,
	atRunning,
	atConfirming,
	atFinished,
	atReporting,
}

// Faults of a worker at a point.
const (
	toKill  = "kill"  // SIGKILL
	toPause = "pause" // SIGSTOP; the test sends SIGCONT after a while
	toMute  = "mute"  // only at atConfirming: it stays silent until the run is in doubt, and then confirms
)

// pointFault is a fault that a worker injects when it next reaches a point.
type pointFault struct {
	point, what string
	hold        time.Duration // length of a pause
}

func (d pointFault) String() string {
	return fmt.Sprintf("%s %s %d", d.point, d.what, d.hold.Milliseconds())
}

func parsePointFault(line string) (d pointFault, ok bool) {
	var ms int64
	n, err := fmt.Sscanf(line, "%s %s %d", &d.point, &d.what, &ms)
	d.hold = time.Duration(ms) * time.Millisecond
	return d, err == nil && n == 3
}

// orders are the faults that a worker was asked to inject into itself: only the worker knows when it
// reaches a point.
type orders struct {
	mu   sync.Mutex
	wait []pointFault // guarded by mu
}

func (o *orders) take(line string) {
	if d, ok := parsePointFault(line); ok {
		o.mu.Lock()
		o.wait = append(o.wait, d)
		o.mu.Unlock()
	}
}

// next removes and returns the first fault for a point.
func (o *orders) next(point string) (pointFault, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, d := range o.wait {
		if d.point == point {
			o.wait = append(o.wait[:i:i], o.wait[i+1:]...)
			return d, true
		}
	}
	return pointFault{}, false
}

// at injects the fault ordered for a point. After a kill it doesn't return; after a pause it
// returns when the pause is over.
func (o *orders) at(point string) {
	if d, ok := o.next(point); ok {
		d.do()
	}
}

// during injects the fault ordered for a point a moment later, while the caller continues.
func (o *orders) during(point string, w *jobWorker) {
	if d, ok := o.next(point); ok {
		time.AfterFunc(w.between(0, 6*time.Millisecond), d.do)
	}
}

// do reports the fault to the test and injects it.
func (d pointFault) do() {
	fmt.Println(d)
	switch d.what {
	case toKill:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case toPause:
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
}
