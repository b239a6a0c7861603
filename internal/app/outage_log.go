package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/postgres"
)

// How the log behaves while the database cannot be used.
const (
	outageProbe   = time.Second // how often the database is asked whether it is back
	outageRepeat  = time.Minute // how often the log says that it is not
	outageAnswers = time.Second // after an answer, an error is taken for one of something else
)

// outageLog is a handler that replaces the messages of an outage of the database, thousands a minute
// from every request and loop, by one when it begins, one when it ends, and their number in between.
// A message belongs to an outage if its error may come from the database and a check of the database
// fails too: a participant or a broker that cannot be reached looks the same.
type outageLog struct {
	slog.Handler
	*outage
}

type outage struct {
	plain   *slog.Logger // without the attributes of a part of the node
	judging sync.WaitGroup

	mu       sync.Mutex
	check    func(context.Context) error // guarded by mu, as are the others; nil: there is no database
	ctx      context.Context             // ends with the checks
	checking bool                        // a goroutine asks the database
	answered time.Time                   // when it last did
	held     []heldEntry                 // until it is known whether there is an outage
	since    time.Time                   // zero: there is none
	counted  int
}

type heldEntry struct {
	to     slog.Handler
	record slog.Record
}

// maxHeld is how many messages wait for the check; the others are written at once.
const maxHeld = 100

func newOutageLog(to slog.Handler) *outageLog {
	return &outageLog{to, &outage{plain: slog.New(to)}}
}

// watch begins to check messages, with a function that returns nil if the database can be used. stop
// ends that.
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

// mayBeOutage reports whether a record is about an error that an unusable database causes.
func mayBeOutage(r *slog.Record) (found bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		found = ok && a.Key == "error" && (postgres.Away(err) || postgres.Exhausted(err) != "")
		return !found
	})
	return found
}

// take takes over a record; false: it must be written.
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

// judge asks the database, and goes on asking until it can be used.
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
	o.plain.Warn("the database cannot be used; messages about that are counted until it can", slog.Any("error", err))
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

// end writes what was held. It unlocks o.
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
