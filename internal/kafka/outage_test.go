package kafka_test

import (
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// gate stands between a store and its database. While it is shut, no connection gets through, and
// open connections are cut.
type gate struct {
	l    net.Listener
	open atomic.Bool
	mu   sync.Mutex
	live map[net.Conn]bool // guarded by mu
}

// behind returns a DSN that leads through a new gate, which is open.
func behind(t *testing.T, dsn string) (string, *gate) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	target := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{l: l, live: map[net.Conn]bool{}}
	g.open.Store(true)
	t.Cleanup(func() { l.Close(); g.shut() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go g.pass(in, target)
		}
	}()
	u.Host = l.Addr().String()
	return u.String(), g
}

func (g *gate) pass(in net.Conn, target string) {
	defer in.Close()
	if !g.open.Load() {
		return
	}
	out, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer out.Close()
	g.mu.Lock()
	g.live[in] = true
	g.mu.Unlock()
	go func() { defer out.Close(); io.Copy(out, in) }() //nolint:errcheck // either end may close
	io.Copy(in, out)                                    //nolint:errcheck // either end may close
	g.mu.Lock()
	delete(g.live, in)
	g.mu.Unlock()
}

func (g *gate) shut() {
	g.open.Store(false)
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.live {
		c.Close()
	}
}

// members returns the ids of the members of the test's group, and the group's state.
func (c *cluster) members() (ids []string, state string) {
	c.t.Helper()
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{c.mark}
	for _, shard := range c.client.RequestSharded(c.t.Context(), req) {
		if shard.Err != nil {
			c.t.Fatal(shard.Err)
		}
		for _, g := range shard.Resp.(*kmsg.DescribeGroupsResponse).Groups {
			if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
				c.t.Fatal(err)
			}
			for _, m := range g.Members {
				ids = append(ids, m.MemberID)
			}
			state = g.State
		}
	}
	return ids, state
}

// expel removes a member from the test's group. The member learns of this with its next heartbeat.
func (c *cluster) expel(id string) {
	c.t.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = id
	req.Group, req.Members = c.mark, append(req.Members, m)
	res, err := req.RequestWith(c.t.Context(), c.client)
	if err == nil {
		err = kerr.ErrorForCode(res.ErrorCode)
	}
	if err == nil {
		err = kerr.ErrorForCode(res.Members[0].ErrorCode)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func TestWhileTheDatabaseIsAwayReadingPausesAndNothingIsLost(t *testing.T) {
	t.Parallel()
	dsn, g := behind(t, testdb.DSN(t))
	c, b := newCluster(t), newInbox(t, dsn)
	topic := c.create("orders.dlq", 3)
	records := c.produce(dead(topic, 3, 0, 300)...)
	b.ingest(c)
	b.has(len(records))
	patience.Until(t, "it has been told so", func() bool { return b.stored.Load() == 300 })
	g.shut()
	records = append(records, c.produce(dead(topic, 3, 300, 300)...)...)
	patience.Until(t, "it is paused", b.paused.Load)
	records = append(records, c.produce(dead(topic, 3, 600, 300)...)...)
	failures := b.failed.Load()
	patience.Until(t, "it has tried again", func() bool { return b.failed.Load() >= failures+4 })
	if ids, state := c.members(); len(ids) != 1 || state != "Stable" {
		t.Errorf("while the database is away the group is %s with %v", state, ids)
	}
	if n := b.stored.Load(); n != 300 {
		t.Errorf("%d letters are stored while the database is away", n)
	}
	g.open.Store(true)
	b.has(len(records))
	patience.Until(t, "it goes on", func() bool { return !b.paused.Load() })
	for _, r := range records {
		same(t, r, b.letter(r))
	}
}

func TestANodeThatWaitsForItsDatabaseLetsOthersTakeOver(t *testing.T) {
	t.Parallel()
	c, b := newCluster(t), newInbox(t, testdb.DSN(t))
	topic := c.create("orders.dlq", 4)
	records := c.produce(dead(topic, 4, 0, 400)...)
	lost := newInboxOf(b) // a node whose network is broken
	lost.before = func([]dlq.Arrival) error { return errors.New("no route to the database") }
	stop := lost.ingest(c)
	patience.Until(t, "the first node waits", lost.paused.Load)
	b.ingest(c)
	patience.Until(t, "both are members", func() bool {
		ids, state := c.members()
		return len(ids) == 2 && state == "Stable"
	})
	patience.Until(t, "the second node stores its share", func() bool { return b.stored.Load() > 0 })
	stop()
	b.has(len(records))
	for _, r := range records {
		same(t, r, b.letter(r))
	}
}

func TestANodeThatLosesItsPartitionsWhileTheDatabaseIsAwayReadsThoseThatItGetsLater(t *testing.T) {
	t.Parallel()
	c, b := newCluster(t), newInbox(t, testdb.DSN(t))
	topic := c.create("orders.dlq", 2)
	records := c.produce(dead(topic, 2, 0, 200)...)
	var back atomic.Bool
	b.before = func([]dlq.Arrival) error {
		if !back.Load() {
			return errors.New("the database is away")
		}
		return nil
	}
	b.ingest(c)
	patience.Until(t, "it is paused", b.paused.Load)
	before, _ := c.members()
	if len(before) != 1 {
		t.Fatalf("the group has %v", before)
	}
	c.expel(before[0])
	patience.Until(t, "it is a member anew", func() bool {
		now, state := c.members()
		return state == "Stable" && len(now) == 1 && now[0] != before[0]
	})
	back.Store(true)
	b.has(len(records))
	patience.Until(t, "it goes on", func() bool { return !b.paused.Load() })
	for _, r := range records {
		same(t, r, b.letter(r))
	}
}
