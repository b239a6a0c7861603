package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// contestant is Skald or one of its peers. Only one runs at a time.
type contestant interface {
	name() string
	// prepare is called once, before the first start.
	prepare(ctx context.Context) error
	start(ctx context.Context) error
	// request is what a client sends to place an order.
	request(l peerLevel) OrderRequest
	// running is how many sagas have not ended, and ended how many have, as its store says.
	running(ctx context.Context) (int, error)
	ended(ctx context.Context) (ended, error)
	// servers are the processes whose memory counts.
	servers() []*child
	stop() error
}

// turn is what a contestant reached in one level in one round.
type turn struct {
	lost      string // what it lost, if anything; then only detail is set as well
	detail    string
	orders    int
	perSecond float64
	answers   Latency
	cpu       time.Duration // of the whole machine, for each saga
	wal       int64         // bytes of PostgreSQL's log for each saga
	rss       int64         // the most that was seen
	repeated  int           // calls that were made again
	errors    int
	first     string
}

const (
	// endPoll is how often a contestant is asked whether submitted sagas have ended, which
	// limits the error of the time.
	endPoll = 25 * time.Millisecond
	rssPoll = 100 * time.Millisecond
)

// turn starts a contestant, warms it up, measures it, and stops it. What it loses is not an error.
func (p *peersRun) turn(ctx context.Context, c contestant, l peerLevel) (t turn, err error) {
	if err := c.start(ctx); err != nil {
		return turn{}, errors.Join(err, c.stop())
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if p.cfg.Warmup > 0 {
		t, err := p.measured(ctx, c, l, p.cfg.Warmup)
		if err != nil {
			return turn{}, fmt.Errorf("warm up: %w", err)
		}
		if t.lost != "" {
			return t, nil
		}
	}
	return p.measured(ctx, c, l, p.cfg.Duration)
}

// measured measures a load, and checks every order of it.
func (p *peersRun) measured(ctx context.Context, c contestant, l peerLevel, duration time.Duration) (turn, error) {
	before, err := c.ended(ctx)
	if err != nil {
		return turn{}, err
	}
	if _, err := p.recorded(ctx); err != nil {
		return turn{}, err
	}
	counters, err := p.db.wal(ctx)
	if err != nil {
		return turn{}, err
	}
	busy, err := hostProc.busy()
	if err != nil {
		return turn{}, err
	}
	stopWatching := watchMemory(c.servers())
	load, err := p.load(ctx, c, l, duration)
	rss := stopWatching()
	if err != nil {
		return turn{}, err
	}
	busyAfter, err1 := hostProc.busy()
	countersAfter, err2 := p.db.wal(ctx)
	after, err3 := c.ended(ctx)
	recorded, err4 := p.recorded(ctx)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return turn{}, err
	}
	checked := l.checkCalls(recorded, load.Accepted)
	sagas := ended{after.completed - before.completed, after.compensated - before.compensated}
	if lost := load.lost(checked, sagas); lost != "" {
		return turn{lost: lost, detail: checked.example}, nil
	}
	n := len(load.Accepted)
	return turn{
		orders: n, perSecond: float64(n) / load.end.Sub(load.StartedAt).Seconds(), answers: load.Answers,
		cpu: (busyAfter - busy) / time.Duration(n), wal: (countersAfter - counters) / int64(n), rss: rss,
		repeated: checked.repeated, errors: load.Errors, first: load.FirstError,
	}, nil
}

// load places orders, and waits until all of their sagas have ended or there is no more time.
func (p *peersRun) load(ctx context.Context, c contestant, l peerLevel, duration time.Duration) (loaded, error) {
	before, err := c.running(ctx)
	if err != nil {
		return loaded{}, err
	}
	made, err := p.made(ctx)
	if err != nil {
		return loaded{}, err
	}
	orders, err := json.Marshal(c.request(l))
	if err != nil {
		return loaded{}, fmt.Errorf("encode the request: %w", err)
	}
	load := loaded{before: before}
	load.LoadResult, err = execLoad(ctx, p.cfg.Self, duration, []string{
		"-orders", "-clients", fmt.Sprint(l.clients), "-duration", duration.String(),
	}, bytes.NewReader(orders))
	if err != nil {
		return loaded{}, err
	}
	made += l.leastCalls(len(load.Accepted))
	drain, cancel := context.WithTimeout(ctx, p.cfg.Drain)
	defer cancel()
	for {
		// The store is asked only when all calls were made: some stores answer slowly, and are being
		// measured.
		missing, err := p.made(drain)
		if missing = made - missing; err == nil && missing <= 0 {
			missing, err = c.running(drain)
			missing -= before
		}
		for _, s := range c.servers() {
			err = errors.Join(err, s.ended())
		}
		if ctx.Err() == nil && drain.Err() != nil {
			load.unfinished = max(1, missing)
			return load, nil
		}
		if err != nil {
			return loaded{}, err
		}
		if missing <= 0 {
			break
		}
		pause(drain, endPoll)
	}
	// For clients that wait, the last saga had ended when the last response had arrived.
	if load.end = load.EndedAt; l.mode == Submit {
		load.end = time.Now()
	}
	return load, nil
}

// made is how many calls the participant has got.
func (p *peersRun) made(ctx context.Context) (n int, err error) {
	raw, err := request(ctx, p.client, http.MethodGet, "http://"+p.participantAddr+madePath, nil)
	if err == nil {
		n, err = strconv.Atoi(string(raw))
	}
	if err != nil {
		return 0, fmt.Errorf("count the calls: %w", err)
	}
	return n, nil
}

// recorded takes what the participant recorded.
func (p *peersRun) recorded(ctx context.Context) (map[string]calls, error) {
	raw, err := request(ctx, p.client, http.MethodGet, "http://"+p.participantAddr+recordedPath, nil)
	if err != nil {
		return nil, err
	}
	orders := map[string]calls{}
	if err := json.Unmarshal(raw, &orders); err != nil {
		return nil, fmt.Errorf("read the recorded calls: %w", err)
	}
	return orders, nil
}

// watchMemory reads the memory of processes until the function that it returns is called, which
// returns the most that they had together.
func watchMemory(servers []*child) func() int64 {
	var most int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(rssPoll)
		defer ticker.Stop()
		for {
			var sum int64
			for _, s := range servers {
				// A process that has ended is found by others.
				size, _ := hostProc.memory(s.pid())
				sum += size.now
			}
			most = max(most, sum)
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
		}
	}()
	return func() int64 {
		close(stop)
		<-stopped
		return most
	}
}
