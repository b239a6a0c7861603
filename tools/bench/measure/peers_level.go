package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// peerLevel is a row of the comparison.
type peerLevel struct {
	key, title string
	mode       Mode
	clients    int
	undone     bool // the last step is refused
}

// peerLevels are the rows about sagas. Those after them are about job runs.
var peerLevels = []peerLevel{
	{"wait-1", "1 client that waits", Wait, 1, false},
	{"wait-16", "16 clients that wait", Wait, 16, false},
	{"wait-64", "64 clients that wait", Wait, 64, false},
	{"wait-256", "256 clients that wait", Wait, 256, false},
	{"submit-64", "64 clients that submit", Submit, 64, false},
	{"undo-16", "16 clients that wait, compensated", Wait, 16, true},
}

// calls are those that each order of the level must make.
func (l peerLevel) calls() calls {
	if l.undone {
		return undoneCalls
	}
	return placedCalls
}

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

// ended counts sagas that have ended since the beginning.
type ended struct{ completed, compensated int }

// turn is what a contestant reached in one level in one round.
type turn struct {
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

// turn starts a contestant, warms it up, measures it, checks every order, and stops it.
func (p *peersRun) turn(ctx context.Context, c contestant, l peerLevel) (t turn, err error) {
	if err := c.start(ctx); err != nil {
		return turn{}, errors.Join(err, c.stop())
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if p.cfg.Warmup > 0 {
		if _, _, err := p.load(ctx, c, l, p.cfg.Warmup); err != nil {
			return turn{}, fmt.Errorf("warm up: %w", err)
		}
	}
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
	load, end, err := p.load(ctx, c, l, p.cfg.Duration)
	rss := stopWatching()
	if err != nil {
		return turn{}, err
	}
	busyAfter, err1 := hostProc.busy()
	countersAfter, err2 := p.db.wal(ctx)
	if err := errors.Join(err1, err2, p.check(ctx, c, l, load, before)); err != nil {
		return turn{}, err
	}
	recorded, err := p.recorded(ctx)
	if err != nil {
		return turn{}, err
	}
	repeated, err := checkCalls(recorded, load.Accepted, l.calls())
	n := len(load.Accepted)
	return turn{
		orders: n, perSecond: float64(n) / end.Sub(load.StartedAt).Seconds(), answers: load.Answers,
		cpu: (busyAfter - busy) / time.Duration(n), wal: (countersAfter - counters) / int64(n), rss: rss,
		repeated: repeated, errors: load.Errors, first: load.FirstError,
	}, err
}

// load places orders, waits until all of their sagas have ended, and returns when the last one
// had: for clients that wait, when the last response had arrived.
func (p *peersRun) load(
	ctx context.Context,
	c contestant,
	l peerLevel,
	duration time.Duration,
) (LoadResult, time.Time, error) {
	request := c.request(l)
	made, err := p.made(ctx)
	if err != nil {
		return LoadResult{}, time.Time{}, err
	}
	load, err := execLoad(ctx, p.cfg.Self, duration, []string{
		"-url", request.URL, "-body", request.Body, "-want", request.Want, "-want-code", fmt.Sprint(request.WantCode),
		"-clients", fmt.Sprint(l.clients), "-duration", duration.String(),
	})
	if err != nil {
		return LoadResult{}, time.Time{}, err
	}
	for _, n := range l.calls() {
		made += n * len(load.Accepted)
	}
	drain, cancel := context.WithTimeout(ctx, p.cfg.Drain)
	defer cancel()
	for {
		// The store is asked only when all calls were made: some stores answer slowly, and are being
		// measured.
		missing, err := p.made(drain)
		if missing = made - missing; err == nil && missing <= 0 {
			missing, err = c.running(drain)
		}
		for _, s := range c.servers() {
			err = errors.Join(err, s.ended())
		}
		if ctx.Err() == nil && drain.Err() != nil {
			return LoadResult{}, time.Time{}, fmt.Errorf("LOST: %d calls or sagas have not ended in %s", missing, p.cfg.Drain)
		}
		if err != nil {
			return LoadResult{}, time.Time{}, err
		}
		if missing <= 0 {
			break
		}
		pause(drain, endPoll)
	}
	if l.mode == Wait {
		return load, load.EndedAt, nil
	}
	return load, time.Now(), nil
}

// check returns an error unless every order of the load has ended as it must.
func (p *peersRun) check(ctx context.Context, c contestant, l peerLevel, load LoadResult, before ended) error {
	after, err := c.ended(ctx)
	if err != nil {
		return err
	}
	got, other := after.completed-before.completed, after.compensated-before.compensated
	if l.undone {
		got, other = other, got
	}
	// A request that failed may have placed an order anyway.
	if n := len(load.Accepted); got < n || got > n+load.Errors || other > load.Errors {
		return fmt.Errorf("LOST: %d orders were accepted and %d requests failed, but %d sagas ended as they must and %d otherwise",
			n, load.Errors, got, other)
	}
	return nil
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
		return nil, fmt.Errorf("read what was called: %w", err)
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
