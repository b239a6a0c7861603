package redislease_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/redislease"
	"github.com/skald-saga/skald/internal/test/patience"
)

// newCluster returns three masters, each with a third of the slots.
func newCluster(t *testing.T, flags ...string) []*server {
	t.Helper()
	var nodes []*server
	for i := range 3 {
		n := &server{cluster: true, flags: flags}
		n.start(t)
		t.Cleanup(n.kill)
		n.do(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		n.do(t, "CLUSTER", "ADDSLOTSRANGE", i*16384/3, (i+1)*16384/3-1)
		if len(nodes) > 0 {
			host, port, _ := net.SplitHostPort(n.addr)
			nodes[0].do(t, "CLUSTER", "MEET", host, port, n.bus)
		}
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		patience.Until(t, "the cluster comes up", func() bool {
			info := n.do(t, "CLUSTER", "INFO").(string)
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3")
		})
	}
	return nodes
}

func addrs(servers []*server) string {
	var all []string
	for _, s := range servers {
		all = append(all, s.addr)
	}
	return strings.Join(all, ",")
}

// TestAClusterHasEachLeaseWhereItsKeyBelongs checks this with a single address for all nodes, and
// with several addresses of which one is dead.
func TestAClusterHasEachLeaseWhereItsKeyBelongs(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t)
	w := newWorld(t, nodes[0], "redis+cluster://"+nodes[0].addr)
	var held []jobrun.HeldRun
	var fences []jobrun.RunFence
	for range 60 {
		held = append(held, newRun())
		fences = append(fences, held[len(held)-1].RunFence)
	}
	all := func(want bool) func() bool {
		return func() bool { return !slices.Contains(w.alive(t, fences...), !want) }
	}
	w.Hold(held...)
	patience.Until(t, "all are alive", all(true))
	notes := 0
	for _, n := range nodes {
		here := int(n.do(t, "DBSIZE").(int64))
		if here == 0 {
			t.Errorf("%s has none of %d notes", n.addr, len(held))
		}
		notes += here
	}
	if notes != len(held) {
		t.Errorf("there are %d notes of %d runs", notes, len(held))
	}

	keys := []string{"", "{", "{}", "{}a", "a{b}c{d}", "{{a}}", "a}b{c", "héé", strings.Repeat("x", 300)}
	for _, f := range fences {
		keys = append(keys, f.RunID.String(), "{"+f.RunID.String()+"}:a")
	}
	for _, key := range keys {
		if slot := nodes[0].do(t, "CLUSTER", "KEYSLOT", key).(int64); int64(redislease.SlotOf(key)) != slot {
			t.Errorf("the slot of %q is %d, want %d", key, redislease.SlotOf(key), slot)
		}
	}

	late := held[0]
	late.Fence.Attempt, late.Fence.LeaseToken = 8, uuid.New()
	w.Hold(late)
	w.Release(late.RunFence)
	for _, n := range nodes { // the next batch finds no cached script
		n.do(t, "SCRIPT", "FLUSH")
	}
	if got := w.alive(t, late.RunFence, fences[0]); !slices.Equal(got, []bool{false, true}) {
		t.Errorf("late and held are alive: %v", got)
	}
	for _, n := range nodes { // as docs/operations.md says
		n.do(t, "ACL", "SETUSER", "hints", "on", ">hush", "~scheduler:jobrun:lease:*", "+evalsha", "+eval", "+get", "+set",
			"+del", "+ping", "+cluster|slots", "+command")
	}
	others := newWorld(t, nodes[0], "redis+cluster://hints:hush@127.0.0.1:1,"+addrs(nodes))
	others.Hold(held...)
	patience.Until(t, "another node sees all", func() bool { return !slices.Contains(others.alive(t, fences...), false) })
	w.Release(fences...)
	patience.Until(t, "none is alive", all(false))
	if said := w.said() + others.said(); said != "" {
		t.Errorf("it is logged: %s", said)
	}
}

// TestSlotsThatMoveAreFollowed also checks that no caller waits when a node dies with its slots.
func TestSlotsThatMoveAreFollowed(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t, "--cluster-require-full-coverage", "no")
	w := newWorld(t, nodes[0], "redis+cluster://"+addrs(nodes))
	run := newRun()
	w.Hold(run)
	w.settles(t, true, run.RunFence)
	slot := nodes[0].do(t, "CLUSTER", "KEYSLOT", "scheduler:jobrun:lease:"+run.RunID.String()).(int64)
	from := slices.IndexFunc(nodes,
		func(n *server) bool { return n.do(t, "CLUSTER", "COUNTKEYSINSLOT", slot).(int64) == 1 })
	if from < 0 {
		t.Fatal("the note is nowhere")
	}
	to := nodes[(from+1)%3]
	old, id := nodes[from].do(t, "CLUSTER", "MYID"), to.do(t, "CLUSTER", "MYID")
	nodes[from].do(t, "FLUSHALL")
	to.do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", old)
	nodes[from].do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", id)
	to.do(t, "CLUSTER", "SETSLOT", slot, "NODE", id)
	nodes[from].do(t, "CLUSTER", "SETSLOT", slot, "NODE", id)
	w.heals(t, run) // the slot is found again
	if n := to.do(t, "CLUSTER", "COUNTKEYSINSLOT", slot).(int64); n != 1 {
		t.Errorf("the new master has %d notes", n)
	}
	to.kill()
	w.Hold(run)
	w.settles(t, false, run.RunFence)
	w.quick(t, "while a node is dead")
	w.says(t, "is unreachable")
}

// TestSentinelsAreAskedForTheMaster also checks this after the master has died. The passwords of
// Sentinels and servers differ.
func TestSentinelsAreAskedForTheMaster(t *testing.T) {
	t.Parallel()
	auth := []string{"--requirepass", "hush", "--masterauth", "hush"}
	master := newServer(t, auth...)
	host, port, _ := net.SplitHostPort(master.addr)
	replica := newServer(t, append(auth, "--replicaof", host+" "+port)...)
	replica.password = "hush"

	conf := filepath.Join(t.TempDir(), "sentinel.conf") // a Sentinel writes its state into this file
	err := os.WriteFile(conf, fmt.Appendf(nil, `requirepass sesame
sentinel monitor the-master %s %s 1
sentinel auth-pass the-master hush
sentinel down-after-milliseconds the-master 500
sentinel failover-timeout the-master 2000
`, host, port), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	sentinel := &server{conf: conf, flags: []string{"--sentinel"}, password: "sesame"}
	sentinel.start(t)
	t.Cleanup(sentinel.kill)
	patience.Until(t, "the sentinel sees the replica", func() bool {
		return strings.Contains(fmt.Sprint(sentinel.do(t, "SENTINEL", "REPLICAS", "the-master")), "master-link-status ok")
	})

	w := newWorld(t, master, "redis+sentinel://:hush@127.0.0.1:1,"+sentinel.addr+"/the-master/2?sentinel_password=sesame")
	run := newRun()
	w.Hold(run)
	w.settles(t, true, run.RunFence)
	master.kill()
	w.quick(t, "after the master died")
	w.heals(t, run) // the new master is used
	if role := fmt.Sprint(replica.do(t, "ROLE")); !strings.HasPrefix(role, "[master") {
		t.Errorf("the replica is %s", role)
	}
	if said := w.said(); strings.Contains(said, "hush") || strings.Contains(said, "sesame") {
		t.Errorf("it is logged: %s", said)
	}
}
