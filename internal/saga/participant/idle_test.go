package participant

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

func idleConn(t *testing.T) (*conn, func() bool) {
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return newConn(ours), func() bool { return ours.SetDeadline(time.Time{}) != nil }
}

// held returns how many connections the pool keeps, and for how many hosts.
func held(p *idlePool) (conns, hosts int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total, len(p.conns)
}

func TestIdleConnectionsAreClosedAfterTheirTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := idlePool{perHost: 10, timeout: time.Minute}
		defer p.close()
		old, oldClosed := idleConn(t)
		young, youngClosed := idleConn(t)
		other, otherClosed := idleConn(t)
		p.put("a", old)
		p.put("b", other)
		time.Sleep(40 * time.Second) // by the bubble's clock
		p.put("a", young)

		time.Sleep(20 * time.Second)
		synctest.Wait()
		if !oldClosed() || !otherClosed() || youngClosed() {
			t.Fatalf("after a minute: closed %t, %t, %t; want the two old ones", oldClosed(), otherClosed(), youngClosed())
		}
		if conns, hosts := held(&p); conns != 1 || hosts != 1 {
			t.Errorf("%d connections to %d hosts are left, want 1 to 1", conns, hosts)
		}
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if conns, hosts := held(&p); !youngClosed() || conns != 0 || hosts != 0 {
			t.Errorf("after its minute: closed %t, %d connections to %d hosts; want none left", youngClosed(), conns, hosts)
		}
	})
}

func TestTheNewestConnectionIsUsedFirst(t *testing.T) {
	p := idlePool{perHost: 10, timeout: time.Hour}
	defer p.close()
	first, _ := idleConn(t)
	second, _ := idleConn(t)
	p.put("a", first)
	p.put("a", second)
	if p.get("b") != nil || p.get("a") != second || p.get("a") != first || p.get("a") != nil {
		t.Error("connections do not come back newest first, each once, and only for their host")
	}
}

func TestThePoolIsBoundedForAllHostsTogether(t *testing.T) {
	p := idlePool{perHost: maxIdle, timeout: time.Hour, total: maxIdle - 1}
	a, aClosed := idleConn(t)
	b, bClosed := idleConn(t)
	p.put("a", a)
	p.put("b", b)
	if aClosed() || !bClosed() {
		t.Errorf("closed %t, %t; want the second only", aClosed(), bClosed())
	}
	p.close()
	if !aClosed() {
		t.Error("close leaves a connection open")
	}
}
