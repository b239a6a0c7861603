package postgres

import (
	"sync"
	"sync/atomic"
	"time"
)

// A server that hangs, whose machine is paused or whose network is cut, does not close its
// connections: they stay open, and each statement would wait for its own time limit. So all
// connections to one server are judged together: as soon as one shows that the server is silent,
// all of them are abandoned, and their statements end (decision 0114).

// silence is how long a server may owe an answer while nothing at all arrives from it.
const silence = 2 * time.Second

// lines holds the open connections of all pools, by server.
type lines struct {
	told func(server string, connections int) // called when silent has abandoned connections; optional
	good atomic.Int64                         // index of the host in the address that was last connected to

	mu    sync.Mutex
	peers map[string]*peer // guarded by mu
}

// peer is the server at one address.
type peer struct {
	address string
	heard   atomic.Uint64        // how many times data has arrived from it
	open    map[tracked]struct{} // guarded by lines.mu

	// Used only by the heartbeat: the last value of heard, and since when it has had this value.
	was   uint64
	since time.Time
}

// tracked is a connection to a server.
type tracked interface {
	giveUp()
	givenUp() bool
	// awaits returns since when the server has owed an answer, in nanoseconds (0 if it owes none),
	// and within what time it must answer (0 if that is unknown).
	awaits() (since int64, due time.Duration)
}

func newLines(told func(string, int)) *lines {
	if told == nil {
		told = func(string, int) {}
	}
	return &lines{told: told, peers: map[string]*peer{}}
}

func (ls *lines) add(l tracked, address string) *peer {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	p := ls.peers[address]
	if p == nil {
		p = &peer{address: address, open: map[tracked]struct{}{}, since: time.Now()}
		ls.peers[address] = p
	}
	p.open[l] = struct{}{}
	return p
}

func (ls *lines) remove(l tracked, p *peer) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(p.open, l)
	if len(p.open) == 0 && ls.peers[p.address] == p {
		delete(ls.peers, p.address)
	}
}

// silent abandons all connections to a server, unless data has arrived from it since heard had the
// given value.
func (ls *lines) silent(p *peer, heard uint64) {
	ls.mu.Lock()
	if p.heard.Load() != heard {
		ls.mu.Unlock()
		return
	}
	n := 0
	for l := range p.open {
		if !l.givenUp() {
			l.giveUp()
			n++
		}
	}
	ls.mu.Unlock()
	if n > 0 {
		ls.told(p.address, n)
	}
}

// look returns the servers from which nothing has arrived for silence although one of their
// connections waits for an answer, and which of these have exceeded the time limit for that answer.
func (ls *lines) look(now time.Time) (quiet, overdue []*peer) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, p := range ls.peers {
		if h := p.heard.Load(); h != p.was {
			p.was, p.since = h, now
		}
		if now.Sub(p.since) < silence {
			continue
		}
		var longest time.Duration
		for l := range p.open {
			began, due := l.awaits()
			if began == 0 {
				continue
			}
			waits := time.Duration(now.UnixNano() - began)
			longest = max(longest, waits)
			if due > 0 && waits >= due {
				overdue = append(overdue, p)
				break
			}
		}
		if longest >= silence {
			quiet = append(quiet, p)
		}
	}
	return quiet, overdue
}

// restart resets the silence timers of all servers.
func (ls *lines) restart(now time.Time) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, p := range ls.peers {
		p.since = now
	}
}
