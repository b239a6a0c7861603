package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/postgres"
)

// Timing of the log while the database is unavailable.
const (
	outageProbe   = time.Second // how often the database is checked during an outage
	outageRepeat  = time.Minute // how often the log repeats that the outage continues
	outageAnswers = time.Second // for this long after a successful check, errors are not blamed on the database
)

// outageLog is a handler that summarizes a database outage, during which every request and loop
// would log an error: thousands of messages a minute. It logs one message when the outage begins,
// one when it ends, and how many it suppressed in between. A message belongs to an outage if its
// error may come from the database and a check of the database fails as well; the error alone is
// not enough, because an unreachable participant or broker causes the same error.
type outageLog struct {
	slog.Handler
	*outage
}

type outage struct {
	plain   *slog.Logger // without the attributes of a component
	judging sync.WaitGroup

	mu       sync.Mutex
	check    func(context.Context) error // guarded by mu, like the fields below; nil: there is no database
	ctx      context.Context             // ends when the checks end
	checking bool                        // a goroutine is checking the database
	answered time.Time                   // when the database last answered
	held     []heldEntry                 // until it is known whether there is an outage
	since    time.Time                   // zero: there is none
	counted  int
}

type heldEntry struct {
	to     slog.Handler
	record slog.Record
}

// maxHeld limits how many messages wait for the check; any more are written immediately.
const maxHeld = 100

func newOutageLog(to slog.Handler) *outageLog {
	return &outageLog{to, &outage{plain: slog.New(to)}}
}

// watch begins to check messages. The function returns nil if the database is usable. stop ends the
// checks.
func (o *outage) watch(check func(context.Context) error) (stop func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	o.ctx, o.check = ctx, check
	return func() {
		o.mu.Lock()
		o.check = nil
		o.mu.Unlock()
		cancel()
		o.judging.Wait()
	}
}

// Handle implements slog.Handler.
func (l *outageLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level > slog.LevelDebug && mayBeOutage(&r) && l.take(l.Handler, &r) {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l *outageLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &outageLog{l.Handler.WithAttrs(attrs), l.outage}
}

// WithGroup implements slog.Handler.
func (l *outageLog) WithGroup(name string) slog.Handler {
	return &outageLog{l.Handler.WithGroup(name), l.outage}
}

// mayBeOutage reports whether a record is about an error that an unusable database could have caused.
func mayBeOutage(r *slog.Record) (found bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		found = ok && a.Key == "error" && (postgres.Away(err) || postgres.Exhausted(err) != "")
		return !found
	})
	return found
}

// take holds or drops a record. It returns false if the record must be written.
func (o *outage) take(to slog.Handler, r *slog.Record) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !o.since.IsZero():
		o.counted++
		return true
	case o.check == nil, len(o.held) >= maxHeld, !o.checking && time.Since(o.answered) < outageAnswers:
		return false
	}
	o.held = append(o.held, heldEntry{to, r.Clone()})
	if !o.checking {
		o.checking = true
		o.judging.Go(func() { o.judge(o.ctx, o.check) })
	}
	return true
}

// judge checks the database, and repeats the check until the database is usable.
func (o *outage) judge(ctx context.Context, check func(context.Context) error) {
	ask := func() error {
		within, cancel := context.WithTimeout(ctx, probeTime)
		defer cancel()
		return check(within)
	}
	err := ask()
	o.mu.Lock()
	if err == nil || ctx.Err() != nil {
		o.end()
		return
	}
	began := time.Now()
	o.since, o.counted, o.held = began, len(o.held), nil
	o.mu.Unlock()
	o.plain.Warn("the database cannot be used; further messages about it are only counted until it can be used again", slog.Any("error", err))
	for said := began; err != nil; {
		if !loop.Sleep(ctx, outageProbe) {
			o.mu.Lock()
			o.end()
			return
		}
		if err = ask(); err != nil && time.Since(said) >= outageRepeat {
			said = time.Now()
			o.plain.Warn("the database cannot be used", slog.Duration("for", said.Sub(began).Round(time.Second)),
				slog.Int("messages", o.number()), slog.Any("error", err))
		}
	}
	o.plain.Info("the database can be used again", slog.Duration("after", time.Since(began).Round(time.Millisecond)),
		slog.Int("messages", o.number()))
	o.mu.Lock()
	o.end()
}

// end writes the messages that were held, and unlocks o.
func (o *outage) end() {
	held := o.held
	o.held, o.since, o.checking, o.answered = nil, time.Time{}, false, time.Now()
	o.mu.Unlock()
	for _, h := range held {
		_ = h.to.Handle(context.Background(), h.record)
	}
}

func (o *outage) number() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.counted
}
