// Package httpkit is what the HTTP handlers of all subjects share, and depends on none of
// them: requests and their callers, answers, faults of parameters and bodies, pages and
// cursors, entity tags, waiting, live streams, redaction, and the record of who did what.
//
// Files, each on top of those before it: problems, faults, cursor, violations, items,
// request, etag, streams, kit, redact, values, answer, stream, audit, check, key, list, trace,
// wait.
package httpkit

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/waiting"
)

// Limits are the limits on requests. Zero fields mean the defaults in the comments, except
// for MaxWait.
type Limits struct {
	MaxBodyBytes     int64         // 1 MiB
	ReadTimeout      time.Duration // 30 s; for a body, however large
	BodyGrace        time.Duration // 5 s; from then on a body must come at MinBodyRate
	MinBodyRate      int           // bytes per second; 0: as slowly as it likes
	MaxWorkflowBytes int64         // 256 KiB; of a definition, inline steps included
	MaxSteps         int           // 100
	MaxJSONDepth     int           // 64; the whole body, its own braces included
	MaxWait          time.Duration // longer waits are cut to it; 0: requests do not wait
	RequestTimeout   time.Duration // 30 s; for the work on a request, without a requested wait
	MaxStreams       int           // 100; live streams of events at once
	TenantStreams    int           // MaxStreams; of one tenant
	StreamAge        time.Duration // 1 h; then a stream ends, and its client connects and authenticates again
	StreamSilence    time.Duration // 15 s; after it a comment is sent
	StreamWrite      time.Duration // 10 s; a reader that accepts no data for longer is disconnected
}

// Complete sets the defaults.
func (l *Limits) Complete() {
	if l.MaxBodyBytes == 0 {
		l.MaxBodyBytes = 1 << 20
	}
	if l.ReadTimeout == 0 {
		l.ReadTimeout = 30 * time.Second
	}
	if l.BodyGrace == 0 {
		l.BodyGrace = 5 * time.Second
	}
	if l.MaxWorkflowBytes == 0 {
		l.MaxWorkflowBytes = 256 << 10
	}
	if l.MaxSteps == 0 {
		l.MaxSteps = 100
	}
	if l.MaxJSONDepth == 0 {
		l.MaxJSONDepth = 64
	}
	if l.RequestTimeout == 0 {
		l.RequestTimeout = 30 * time.Second
	}
	if l.MaxStreams == 0 {
		l.MaxStreams = 100
	}
	if l.TenantStreams == 0 {
		l.TenantStreams = l.MaxStreams
	}
	if l.StreamAge == 0 {
		l.StreamAge = time.Hour
	}
	if l.StreamSilence == 0 {
		l.StreamSilence = 15 * time.Second
	}
	if l.StreamWrite == 0 {
		l.StreamWrite = 10 * time.Second
	}
}

// Kit is what the handlers of every subject share.
type Kit struct {
	Clock    func() time.Time
	NewID    func() uuid.UUID
	Limits   Limits
	Stopping <-chan struct{} // closed when the server begins to stop; nil: never
	Ends     *waiting.Board  // who waits for the end of what
	Log      *slog.Logger
	Cursors  Cursors
	Streams  *Streams
}

// Now returns the current time at the stores' precision: UTC, in microseconds.
func (k *Kit) Now() time.Time { return k.Clock().UTC().Truncate(time.Microsecond) }

// Bounded limits the work on a request; a client that leaves ends it.
func (k *Kit) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, k.Limits.RequestTimeout)
}

// Promised is Bounded for writes: a write that has begun is not given up
// because the client left. A saga that is stored must reach its driver.
func (k *Kit) Promised(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), k.Limits.RequestTimeout)
}

// MaxReloads limits how often a change is decided again because its resource has changed in the
// meantime.
const MaxReloads = 5

// Reloads are the attempts at a change, with a pause between them that is random and grows: clients
// that change one resource at once would otherwise all read it again at once, and all but one of
// them for nothing. After the last, KeepsChanging is the answer.
func Reloads(ctx context.Context) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range MaxReloads {
			if i > 0 {
				loop.Sleep(ctx, loop.Within(time.Duration(i)*reloadPause)) // the store will say if ctx has ended
			}
			if !yield(i) {
				return
			}
		}
	}
}

const reloadPause = 20 * time.Millisecond

// KeepsChanging returns the fault of a change that came too late in every attempt. It is not
// an outage: the server is in order, and others were served meanwhile.
func KeepsChanging(what string) error {
	return fault.New(fault.Conflict, CodeKeepsChanging,
		"others changed the %s each of the %d times that this change was decided: nothing was done, send it again", what, MaxReloads)
}
