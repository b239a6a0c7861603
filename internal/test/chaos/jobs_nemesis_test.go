package chaos

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// jobFaults says which faults a campaign of job runs injects, and how many of each.
type jobFaults struct {
	points                  int // how often each fault is injected at each point of a worker's life
	kills, stops            int // of workers, from outside
	leaderKills, leaderHold int // of the leader; a held leader is stopped past its lease
	nodeKills, terms        int // of any node
	crashes, cuts           int // of the database; of its connections
	drains, detaches        int // of workers, by operators
	deposals, pauses        int // of the leader; of definitions, by operators
}

// jobNemesis injects faults.
type jobNemesis struct {
	nemesis
	h *fleet
	a *asker
}

// hold returns a time longer than a lease, or longer than a lease and the period in doubt that
// follows it: a worker or node that continues after it has lost its runs, or while they are in
// doubt.
func (n *jobNemesis) hold() time.Duration {
	if n.dice.IntN(3) == 0 {
		return time.Second + time.Duration(n.dice.IntN(2000))*time.Millisecond
	}
	return 4500*time.Millisecond + time.Duration(n.dice.IntN(1500))*time.Millisecond
}

// run injects all faults within length, in random order, and returns when everything is running
// again.
func (n *jobNemesis) run(ctx context.Context, m jobFaults, length time.Duration) {
	var faults []func(context.Context)
	add := func(times int, do func(context.Context)) {
		for range times {
			faults = append(faults, do)
		}
	}
	for _, point := range workerPoints {
		add(m.points, func(context.Context) { n.order(pointFault{point, toKill, 0}) })
		add(m.points, func(context.Context) { n.order(pointFault{point, toPause, n.hold()}) })
	}
	add(m.points, func(context.Context) { n.order(pointFault{atConfirming, toMute, 0}) })
	add(m.kills, func(context.Context) { n.slot().kill() })
	add(m.stops, func(context.Context) { n.slot().stop(n.hold()) })
	add(m.leaderKills, n.killLeader)
	add(m.leaderHold, n.holdLeader)
	add(m.nodeKills, n.kill)
	add(m.terms, n.term)
	add(m.crashes, n.crashDatabase)
	add(m.cuts, n.cutDatabase)
	add(m.drains, n.drain)
	add(m.detaches, n.detach)
	add(m.deposals, n.depose)
	add(m.pauses, n.pauseJob)
	n.dice.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	began, gap := time.Now(), length/time.Duration(len(faults)+1)
	for i, do := range faults {
		if !pause(ctx, time.Until(began.Add(gap*time.Duration(i)+time.Duration(n.dice.Int64N(int64(gap)))))) {
			break
		}
		do(ctx)
	}
	n.back.Wait()
}

func (n *jobNemesis) slot() *workerSlot { return n.h.slots[n.dice.IntN(len(n.h.slots))] }

// order tells a worker to inject d when it next reaches the point. If the worker doesn't get there
// for a while or is dead, order tries another worker.
func (n *jobNemesis) order(d pointFault) {
	name, v := d.point+" "+d.what, n.slot()
	before := n.h.count(name)
	dice := n.w.dice(fmt.Sprint(d, before))
	n.back.Go(func() {
		for range 6 {
			v.order(d)
			for range 30 {
				if n.h.count(name) > before || !pause(context.Background(), 100*time.Millisecond) {
					return
				}
			}
			v = n.h.slots[dice.IntN(len(n.h.slots))]
		}
	})
}

// leader returns the leading node, or nil if it is down.
func (n *jobNemesis) leader(ctx context.Context) *node {
	for range 100 {
		var name string
		err := n.w.db.sql().
			QueryRowContext(ctx, `SELECT node FROM jobs.leader WHERE expires_at > clock_timestamp()`).
			Scan(&name)
		for _, v := range n.w.nodes {
			if err == nil && v.name == name && v.alive() != nil {
				return v
			}
		}
		if !pause(ctx, 50*time.Millisecond) {
			break
		}
	}
	return nil
}

func (n *jobNemesis) killLeader(ctx context.Context) {
	v := n.leader(ctx)
	if v == nil {
		return
	}
	down := n.absence()
	n.w.log.write("%s leads: SIGKILL, back in %s", v.name, down)
	v.end(syscall.SIGKILL)
	n.w.tally.kills.Add(1)
	n.a.did("leader kill")
	n.back.Go(func() { n.bringBack(v, down) })
}

// holdLeader stops the leader past its lease, so that another node leads when the first one
// continues.
func (n *jobNemesis) holdLeader(ctx context.Context) {
	v := n.leader(ctx)
	if v == nil {
		return
	}
	proc, d := v.alive(), 3500*time.Millisecond+time.Duration(n.dice.IntN(2000))*time.Millisecond
	if proc == nil {
		return
	}
	n.w.log.write("%s leads: SIGSTOP for %s", v.name, d)
	proc.signal(syscall.SIGSTOP)
	n.w.tally.stops.Add(1)
	n.a.did("leader hold")
	from := time.Now()
	n.back.Go(func() {
		pause(context.Background(), d)
		n.w.log.stopped(interval{from, time.Now()})
		n.w.log.write("%s: SIGCONT", v.name)
		proc.signal(syscall.SIGCONT)
	})
}

func (n *jobNemesis) someWorker(ctx context.Context) string {
	ids := n.a.workers(ctx, n.dice)
	if len(ids) == 0 {
		return ""
	}
	return ids[n.dice.IntN(len(ids))]
}

// drain drains a worker and later cancels the drain.
func (n *jobNemesis) drain(ctx context.Context) {
	id := n.someWorker(ctx)
	if id == "" || !n.a.tell(ctx, n.dice, "/api/v1/workers/"+id+"/drain") {
		return
	}
	n.w.log.write("worker %s is drained", id)
	n.a.did("drain")
	dice := n.w.dice("undrain " + id)
	n.back.Go(func() {
		pause(ctx, 2*time.Second)
		n.a.tell(ctx, dice, "/api/v1/workers/"+id+"/undrain")
	})
}

func (n *jobNemesis) detach(ctx context.Context) {
	if id := n.someWorker(ctx); id != "" && n.a.tell(ctx, n.dice, "/api/v1/workers/"+id+"/detach") {
		n.w.log.write("worker %s is detached", id)
		n.a.did("detach")
	}
}

func (n *jobNemesis) depose(ctx context.Context) {
	if n.a.tell(ctx, n.dice, "/api/v1/scheduler/leader/step-down") {
		n.w.log.write("the leader is deposed")
		n.a.did("depose")
	}
}

// pauseJob pauses a definition for a few seconds; its slots in that time are recorded as skipped.
func (n *jobNemesis) pauseJob(ctx context.Context) {
	j := n.a.jobs[n.dice.IntN(4)]
	if !n.a.tell(ctx, n.dice, fmt.Sprintf("/api/v1/job-definitions/%s/pause", j.name)) {
		return
	}
	n.w.log.write("%s is paused", j.name)
	n.a.did("pause")
	dice := n.w.dice("resume " + j.name)
	n.back.Go(func() {
		pause(ctx, 3*time.Second)
		for !n.a.tell(ctx, dice, fmt.Sprintf("/api/v1/job-definitions/%s/resume", j.name)) && pause(ctx, 100*time.Millisecond) {
		}
	})
}
