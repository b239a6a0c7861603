package certifier

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// slow reports whether calls run for a while, beside others.
func (p *participant) slow() bool {
	return p.way == waitsForRunning || p.way == waiterFrees || p.way == outlivesUndo || p.way == stoppedAndForgot
}

// running is an execute that is under way.
type running struct {
	left    bool // its caller
	freed   bool // its key was given to another one
	stopped bool // by its compensation
}

// until lets others run, at most so many moments, until it is so. It holds the lock.
func (p *participant) until(moments int, so func() bool) {
	for range moments {
		if so() {
			return
		}
		p.mu.Unlock()
		time.Sleep(2 * time.Millisecond)
		p.mu.Lock()
	}
}

// run is a call that waits for an execute of its step that is under way.
func (p *participant) run(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := func() bool { return r.Context().Err() != nil }
	key, undo := r.Header.Get("Idempotency-Key"), r.Header.Get("X-Saga-Action") == "compensate"
	execute := strings.Replace(key, "/compensate", "/execute", 1)
	for other := p.running[execute]; other != nil; other = p.running[execute] {
		switch {
		case undo && other.left && p.way == stoppedAndForgot:
			other.stopped, p.answers[key] = true, "{}"
			delete(p.running, execute)
			io.WriteString(w, "{}")
			return
		case undo && other.left && p.way == outlivesUndo:
			status, text := p.locked(r.Header)
			p.until(1000, func() bool { return p.running[execute] == nil })
			w.WriteHeader(status)
			io.WriteString(w, text)
			return
		case left():
			if !undo && p.way == waiterFrees {
				other.freed = true
				delete(p.running, execute)
			}
			return
		}
		p.until(1, func() bool { return false })
	}
	if _, known := p.answers[key]; !known && !undo && !p.undone[stepOfKey(r.Header)] && !p.work(r.Header, key, left) {
		return
	}
	status, text := p.locked(r.Header)
	w.WriteHeader(status)
	io.WriteString(w, text)
}

// work is an execute while it runs: a moment, and longer if its caller leaves. It reports whether it ends as it should.
func (p *participant) work(h http.Header, key string, left func() bool) bool {
	me := &running{}
	p.running[key] = me
	if p.until(100, left); left() {
		me.left = true
		p.until(250, func() bool {
			return me.stopped || me.freed && p.effects[key] > 0 || p.way == outlivesUndo && p.undone[stepOfKey(h)]
		})
	}
	if p.running[key] == me {
		delete(p.running, key)
	}
	switch {
	case me.stopped:
		return false
	case me.freed, p.undone[stepOfKey(h)]:
		p.effects[key]++
		return false
	}
	return true
}

// orderly are connections on which a request was not sent before its handler has begun: so a call that is cut is
// under way when the next one comes.
func (p *participant) orderly(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &orderly{c, p, 0}, err
}

type orderly struct {
	net.Conn

	p    *participant
	sent int
}

// Write implements net.Conn.
func (c *orderly) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil && strings.HasPrefix(string(b), "POST ") {
		c.sent++
		c.p.mu.Lock()
		defer c.p.mu.Unlock()
		c.p.until(30_000, func() bool { return c.p.begun[c.LocalAddr().String()] >= c.sent })
	}
	return n, err
}
