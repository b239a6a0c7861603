package publication_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/event/publication"
)

// term is a publication that this node leads, with nothing to publish. It fails while down is set.
type term struct {
	trail.Publications
	down   atomic.Bool
	behind []trail.Unpublished
}

func (*term) Lead(context.Context, string, string, time.Duration) (int64, error) { return 1, nil }

func (*term) Renew(context.Context, string, int64, time.Duration) (bool, error) { return true, nil }

func (*term) Resign(context.Context, string, int64) error { return nil }

func (p *term) Unpublished(context.Context, string) ([]trail.Unpublished, error) {
	if p.down.Load() {
		return nil, errors.New("the broker is away")
	}
	return p.behind, nil
}

// lines is a log that can be read while it is being written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

type idle struct{}

func (idle) Send(context.Context, []publication.Message) error { return nil }

func (idle) Close() {}

// Events that the feed holds back are not sent (the store here has no feed), and count as lag.
func TestEventsThatTheFeedHoldsBackAreLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lag atomic.Int64
		p := &term{behind: []trail.Unpublished{{TenantID: uuid.UUID{1}, Since: time.Now(), Held: true}}}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			publication.Run(ctx, publication.Config{
				Name: "kafka:events", Node: "a", Store: p, Now: time.Now, Log: slog.New(slog.DiscardHandler),
				Open:     func() (publication.Producer, error) { return idle{}, nil },
				Observer: publication.Observer{Lag: func(age time.Duration) { lag.Store(int64(age)) }},
			})
		}()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := time.Duration(lag.Load()); got < 9*time.Minute || got > 10*time.Minute {
			t.Errorf("held back for ten minutes, and the lag is %s", got)
		}
		stop()
		<-ended
	})
}

// An unavailable broker is logged immediately and then every ten minutes, however often the node
// tries; the metrics count every failure. Once the broker has been available, the next failure is
// logged immediately again.
func TestAPublicationThatKeepsFailingIsLoggedEveryTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		var failed atomic.Int64
		p := &term{}
		p.down.Store(true)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			publication.Run(ctx, publication.Config{
				Name:  "kafka:events",
				Node:  "a",
				Store: p,
				Open:  func() (publication.Producer, error) { return idle{}, nil },
				Now:   time.Now,
				Log:   slog.New(slog.NewTextHandler(&log, nil)), Observer: publication.Observer{Failed: func() { failed.Add(1) }},
			})
		}()
		warned := func() int { return strings.Count(log.String(), "level=WARN msg=\"cannot publish events") }
		after := func(d time.Duration, want int) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := warned(); got != want {
				t.Errorf("%d warnings, want %d", got, want)
			}
		}
		after(time.Second, 1)
		after(9*time.Minute, 1)
		after(2*time.Minute, 2)
		after(25*time.Minute, 4)
		if n := failed.Load(); n < 100 {
			t.Errorf("only %d failures in 36 minutes are counted", n)
		}
		if text := log.String(); !strings.Contains(text, "publication=kafka:events") ||
			!strings.Contains(text, "the broker is away") {
			t.Errorf("it is not said which publication fails, and why: %s", text)
		}
		p.down.Store(false)
		after(time.Minute, 4)
		p.down.Store(true)
		after(time.Second, 5)
		stop()
		<-ended
	})
}
