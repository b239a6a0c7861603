// Package httpkit contains what the HTTP handlers of all subjects share, and is independent of
// them: requests and their callers, answers, faults for parameters and bodies, pages and cursors,
// entity tags, waiting, live streams, redaction, and the record of who did what.
//
// Files, each on top of those before it: problems, faults, cursor, pattern, violations, shape,
// items, request, etag, redact, answer, streams, kit, values, accept, audit, callback, check, dryrun, key, list,
// published, stream, trace, wait.
package httpkit

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/longpoll"
	"github.com/skald-saga/skald/internal/loop"
)

// Limits are the limits on requests. Zero fields mean the defaults in the comments, except
// for MaxWait.
type Limits struct {
	MaxBodyBytes     int64         // 1 MiB
	ReadTimeout      time.Duration // 30 s; for a body of any size
	BodyGrace        time.Duration // 5 s; after that, a body must arrive at MinBodyRate
	MinBodyRate      int           // bytes per second; 0: no minimum
	MaxWorkflowBytes int64         // 256 KiB; of a definition, including inline steps
	MaxSteps         int           // 100
	MaxJSONDepth     int           // 64; of the whole body, including its own braces
	MaxWait          time.Duration // longer waits are shortened to it; 0: requests do not wait
	RequestTimeout   time.Duration // 30 s; for processing a request, not counting a requested wait
	MaxStreams       int           // 100; maximum number of concurrent live streams of events
	TenantStreams    int           // MaxStreams; the same for one tenant
	StreamAge        time.Duration // 1 h; after that a stream ends, and its client reconnects and authenticates again
	StreamSilence    time.Duration // 15 s; after this long without data, a comment is sent
	StreamWrite      time.Duration // 10 s; a client that accepts no data for longer is disconnected
}

// Complete fills in the defaults.
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

// Kit contains what the handlers of all subjects share.
type Kit struct {
	Clock    func() time.Time
	NewID    func() uuid.UUID
	Limits   Limits
	Stopping <-chan struct{} // closed when the server begins to stop; nil: never
	Ends     *longpoll.Board // which requests wait for the end of what
	Log      *slog.Logger
	Cursors  Cursors
	Streams  *Streams
}

// Now returns the current time at the stores' precision: UTC, in microseconds.
func (k *Kit) Now() time.Time { return k.Clock().UTC().Truncate(time.Microsecond) }

// Bounded limits the time for processing a request. Its context ends early if the client disconnects.
func (k *Kit) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, k.Limits.RequestTimeout)
}

// Promised is Bounded for writes: a write that has begun continues if the client disconnects,
// because a stored saga must reach its driver.
func (k *Kit) Promised(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), k.Limits.RequestTimeout)
}

// MaxReloads limits how often a change is retried because its resource has changed in the meantime.
const MaxReloads = 5

// Reloads yields the attempts at a change, with random, growing pauses between them. Otherwise
// clients that change one resource simultaneously would all read it again simultaneously, and only
// one of them would succeed. After the last attempt the answer is KeepsChanging.
func Reloads(ctx context.Context) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range MaxReloads {
			if i > 0 {
				loop.Sleep(ctx, loop.Within(time.Duration(i)*reloadPause)) // if ctx has ended, the store returns an error
			}
			if !yield(i) {
				return
			}
		}
	}
}

const reloadPause = 20 * time.Millisecond

// KeepsChanging returns the fault for a change that met a conflict in every attempt. This is not an
// outage: other requests succeeded in the meantime.
func KeepsChanging(what string) error {
	return fault.New(fault.Conflict, CodeKeepsChanging,
		"other requests changed the %s during each of %d attempts at this change: nothing was done, so send it again", what, MaxReloads)
}
