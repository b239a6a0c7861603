package participant

import (
	"slices"
	"sync"
	"time"
)

// maxIdle limits the number of idle connections to all hosts together, and thus the number of file
// descriptors.
const maxIdle = 4096

// idlePool keeps connections between calls. The most recently used ones are taken first, so that
// the others can expire. The zero value is ready to use once perHost and timeout are set.
type idlePool struct {
	perHost int
	timeout time.Duration

	mu     sync.Mutex
	conns  map[string][]*conn // by target.key, oldest first; guarded by mu
	total  int                // number of connections in conns; guarded by mu
	timer  *time.Timer        // runs expire as long as conns has keys; guarded by mu
	closed bool               // guarded by mu
}

// get removes and returns the newest connection for key, or nil if there is none.
func (p *idlePool) get(key string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.conns[key]
	if len(list) == 0 {
		return nil
	}
	c := list[len(list)-1]
	list[len(list)-1] = nil
	p.conns[key] = list[:len(list)-1] // an empty list remains until the next connection, or until expire
	p.total--
	return c
}

// put keeps c for later, or closes it if there is no room.
func (p *idlePool) put(key string, c *conn) {
	if !p.keep(key, c) {
		c.Close()
	}
}

func (p *idlePool) keep(key string, c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.conns[key]
	if p.closed || p.total >= maxIdle || len(list) >= p.perHost {
		return false
	}
	if p.conns == nil {
		p.conns = make(map[string][]*conn)
	}
	c.since = time.Now()
	p.conns[key] = append(list, c)
	p.total++
	if p.timer == nil {
		p.timer = time.AfterFunc(p.timeout, p.expire)
	}
	return true
}

// expire closes connections that have been idle for at least the timeout, and reschedules itself
// for the others.
func (p *idlePool) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	next := p.timeout
	for key, list := range p.conns {
		n := 0
		for n < len(list) && now.Sub(list[n].since) >= p.timeout {
			list[n].Close()
			n++
		}
		p.total -= n
		if n == len(list) {
			delete(p.conns, key)
			continue
		}
		p.conns[key] = slices.Delete(list, 0, n)
		next = min(next, p.timeout-now.Sub(p.conns[key][0].since))
	}
	p.timer = nil
	if len(p.conns) > 0 && !p.closed {
		p.timer = time.AfterFunc(next, p.expire)
	}
}

func (p *idlePool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, list := range p.conns {
		for _, c := range list {
			c.Close()
		}
	}
	p.conns, p.total = nil, 0
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}
