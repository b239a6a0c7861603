package postgres

import (
	"sync"
	"sync/atomic"
	"time"
)

// A server that hangs, whose machine is paused or whose network is cut, closes nothing: its
// connections stay open, and each statement would wait for its own time limit. So all connections
// to one server are judged together: as soon as one shows that the server is silent, all of them
// are given up, and their statements end (decision 0114).

// silence is how long a server may leave an answer due while nothing at all arrives from it.
const silence = 2 * time.Second

// lines are the open connections of all pools, by server.
type lines struct {
	told func(server string, connections int) // what silent did; optional
	good atomic.Int64                         // the host that was last connected to, of those in the address

	mu    sync.Mutex
	peers map[string]*peer // guarded by mu
}

// peer is a server: what is at one address.
type peer struct {
	address string
	heard   atomic.Uint64        // how often something has arrived from it
	open    map[tracked]struct{} // guarded by lines.mu

	// Of the heartbeat alone: what heard was, and since when.
	was   uint64
	since time.Time
}

// tracked is a connection to a server.
type tracked interface {
	giveUp()
	givenUp() bool
	// awaits returns since when the server has owed an answer, in nanoseconds, 0 if it owes none; and
	// when it has to have answered, 0 if that is unknown.
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

// silent gives up all connections to a server, unless it has been heard more often than that.
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
// connections waits for an answer, and of these the ones whose own time limit for it has passed.
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

// restart begins to count the silence of all servers again.
func (ls *lines) restart(now time.Time) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, p := range ls.peers {
		p.since = now
	}
}
