package app_test

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/postgres/devpg"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// wire is the network between the nodes and the primary. It can stop carrying bytes in one direction
// or in both, without closing anything.
type wire struct {
	port              string
	requests, answers atomic.Bool // they are lost
}

func newWire(t *testing.T, to int) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	w := &wire{port: port}
	carry := func(to, from net.Conn, lost *atomic.Bool) {
		defer to.Close()
		defer from.Close()
		b := make([]byte, 32<<10)
		for {
			n, err := from.Read(b)
			if err != nil {
				return
			}
			if lost.Load() {
				continue
			}
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", to))
			if err != nil {
				near.Close()
				continue
			}
			go carry(far, near, &w.requests)
			go carry(near, far, &w.answers)
		}
	}()
	return w
}

// primary is the server that fails.
type primary struct {
	*devpg.Server
	wire  *wire
	disk  string // what its data is on; "": not a disk that may be filled
	nodes []*node
}

// fillDisk fills the disk until every node has said so. A server that cannot write anything is then fenced off, before
// its standby is promoted; it may have given up before, where the WAL was refused.
func fillDisk(t *testing.T, p *primary) {
	fill(t, p.disk)
	for _, n := range p.nodes {
		patience.Until(t, "the node is not ready", func() bool {
			status, _ := call(t, "GET", n.url+"/readyz", "")
			return status == http.StatusServiceUnavailable
		})
	}
	_ = syscall.Kill(p.PID(), syscall.SIGQUIT)
	<-p.Done()
}

// faults are the ways in which a primary can fail.
var faults = []struct {
	name   string
	always bool // tried without being asked for
	strike func(*testing.T, *primary)
}{
	{"kill -9", true, func(t *testing.T, p *primary) {
		if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		<-p.Done()
	}},
	{"SIGSTOP", true, func(t *testing.T, p *primary) { testdb.Freeze(t, p.PID()) }},
	{"network cut", false, func(_ *testing.T, p *primary) {
		p.wire.requests.Store(true)
		p.wire.answers.Store(true)
	}},
	{"answers lost", false, func(_ *testing.T, p *primary) { p.wire.answers.Store(true) }},
	{"full disk", false, fillDisk},
}

// The primary is lost under load, in several ways, and its synchronous standby is promoted, as Patroni
// does it. The nodes have both addresses. `make failover` repeats it, with every fault.
func TestAFailoverToTheStandbyLosesNoSaga(t *testing.T) {
	t.Parallel()
	rounds, err := strconv.Atoi(cmp.Or(os.Getenv("FAILOVER_ROUNDS"), "0"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			if rounds == 0 {
				if !f.always {
					t.Skip("only with FAILOVER_ROUNDS")
				}
				t.Parallel()
			}
			var back []time.Duration
			for range max(rounds, 1) {
				t.Run("round", func(t *testing.T) { back = append(back, failOver(t, f.name == "full disk", f.strike)) })
			}
			if t.Failed() {
				return
			}
			slices.Sort(back)
			t.Logf("%s: back after %s at best, %s at worst, in %d rounds", f.name, back[0].Round(10*time.Millisecond),
				back[len(back)-1].Round(10*time.Millisecond), len(back))
		})
	}
}

// failOver returns how long after the promotion both nodes have accepted a saga and are ready.
func failOver(t *testing.T, small bool, strike func(*testing.T, *primary)) (back time.Duration) {
	settings, home, disk := map[string]string{"fsync": "off"}, t.TempDir(), ""
	if small {
		disk = smallDisk(t, "192m")
		home = filepath.Join(disk, "pg")
		for name, value := range map[string]string{
			"shared_buffers": "16MB", "max_wal_size": "32MB", "min_wal_size": "32MB",
		} {
			settings[name] = value
		}
	}
	first := startServer(t, home, settings)
	dir := takeBase(t, first)
	touch(t, dir, "standby.signal")
	standby := startServer(t, dir, map[string]string{
		"fsync": "off", "primary_conninfo": first.DSN("") + "&application_name=second",
	})
	p, s := owner(t, first.DSN("postgres")), owner(t, standby.DSN("postgres"))
	// Synchronous: acknowledged commits are on both. Otherwise the latest ones may be lost.
	run(t, p, `ALTER SYSTEM SET synchronous_standby_names = 'second'`, `SELECT pg_reload_conf()`)
	until(t, p, `SELECT bool_and(sync_state = 'sync') FROM pg_stat_replication`)
	w := newWire(t, first.Port())
	both := fmt.Sprintf("%s host=127.0.0.1,127.0.0.1 port=%s,%d password=%s",
		withoutLogin(t, first.DSN(devpg.Database)), w.port, standby.Port(), passwordOf(t, first))
	var io time.Duration
	set := func(c *config.Config) { io = c.Database.IOTimeout }
	nodes := []*node{start(t, both, "a", set), start(t, both, "b", set)}
	calls := serveShop(t, nodes[0])
	others := goBeside(t, nodes)

	const all = 240
	var lots [2]*orders
	var placing sync.WaitGroup
	var struck sync.Once
	var promoted time.Time
	fallen := make(chan struct{})
	for i, n := range nodes {
		lots[i] = &orders{t: t, url: n.url, name: n.url, ids: map[string]bool{}}
		placing.Go(func() {
			lots[i].run(all/2, map[int]func(){all / 4: func() {
				struck.Do(func() {
					others.strike()
					strike(t, &primary{first, w, disk, nodes})
					run(t, s, `SELECT pg_promote()`)
					promoted = time.Now()
					close(fallen)
				})
			}})
		})
	}
	patience.Receive(t, "the standby is promoted", fallen)
	var probes sync.WaitGroup
	times := make([]time.Duration, len(nodes))
	for i, n := range nodes {
		probes.Go(func() {
			o := &orders{t: t, url: n.url, ids: map[string]bool{}}
			o.place(fmt.Sprint("first-", i))
			if times[i] = time.Since(promoted); o.accepted.Load() == 0 {
				return // place has said why
			}
			patience.Until(t, "the node is ready", func() bool {
				status, _ := call(t, "GET", n.url+"/readyz", "")
				return status == http.StatusOK
			})
			t.Logf("%s: accepted after %s (%d tries before), ready after %s", n.url, times[i].Round(10*time.Millisecond),
				o.again.Load(), time.Since(promoted).Round(10*time.Millisecond))
			times[i] = time.Since(promoted)
			lots[i].also(o)
		})
	}
	probes.Wait()
	placing.Wait()
	if t.Failed() {
		return 0
	}
	again := int64(0)
	ids := map[string]bool{}
	for i, o := range lots {
		if again += o.again.Load(); len(o.ids) != all/2+1 {
			t.Errorf("%d sagas for %d orders", len(o.ids), all/2+1)
		}
		maps.Copy(ids, o.ids)
		o.url = nodes[1-i].url // the same orders again, at the other node
		o.run(all/2, nil)
	}
	t.Logf("%d orders accepted, %d requests asked to try again", len(ids), again)
	if known := len(ids); known == all+2 {
		for _, o := range lots {
			maps.Copy(ids, o.ids)
		}
		if len(ids) != known {
			t.Errorf("I11: orders that were repeated started %d other sagas", len(ids)-known)
		}
	}
	others.judge()
	judge(t, nodes[0].url, owner(t, standby.DSN(devpg.Database)), calls, ids, others.sagas())
	start(t, both, "c") // which has nothing to do
	calls.silent(t)
	// Not by a clock: what has to pass first is a few seconds, and what must not is a minute.
	back = slices.Max(times)
	if back > io/2 {
		t.Errorf("back %s after the promotion; the time limit of a connection is %s", back, io)
	}
	return back
}
