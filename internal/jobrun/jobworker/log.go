package jobworker

import (
	"context"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/loop"
)

const (
	chunkBytes = 64 << 10    // size of a stored chunk
	chunkAfter = time.Second // age at which a smaller chunk is stored
)

// log collects a run's output in chunks, and stores them in order.
type log struct {
	put func(jobrun.LogChunk) error

	mu     sync.Mutex
	stream string
	body   []byte
	seq    int
	lost   bool // the worker no longer holds the run, or the log is full
	later  *time.Timer
}

func newLog(put func(jobrun.LogChunk) error) *log { return &log{put: put} }

// stream is one of the streams of a log.
type stream struct {
	l    *log
	name string
}

func (l *log) writer(name string) *stream { return &stream{l, name} }

// Write blocks while chunks are stored. It never fails.
func (s *stream) Write(p []byte) (int, error) {
	l := s.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stream != s.name {
		l.store()
		l.stream = s.name
	}
	for rest := p; len(rest) > 0; {
		n := min(len(rest), chunkBytes-len(l.body))
		l.body, rest = append(l.body, rest[:n]...), rest[n:]
		if len(l.body) == chunkBytes {
			l.store()
		}
	}
	if len(l.body) > 0 && l.later == nil {
		l.later = time.AfterFunc(chunkAfter, l.flush)
	}
	return len(p), nil
}

func (l *log) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store()
}

// close stores the remaining output.
func (l *log) close() { l.flush() }

// store stores the pending chunk. The caller holds the lock.
func (l *log) store() {
	if l.later != nil {
		l.later.Stop()
		l.later = nil
	}
	if len(l.body) == 0 || l.lost {
		l.body = nil
		return
	}
	c := jobrun.LogChunk{LogPosition: jobrun.LogPosition{Seq: l.seq}, Stream: l.stream, Body: l.body}
	l.seq, l.body = l.seq+1, nil
	for begun := time.Now(); ; loop.Sleep(context.Background(), tryAgain) {
		err := l.put(c)
		if err == nil {
			return
		}
		if fault.As(err) != nil || time.Since(begun) > reportFor {
			l.lost = true
			return
		}
	}
}

// reportFor is how long the worker keeps reporting a result while the database does not respond.
const reportFor = 2 * time.Minute

const (
	lookEvery = 1500 * time.Millisecond // interval between claims if nothing wakes the worker
	tryAgain  = time.Second             // pause after an outage

	confirmFor = 5 * time.Second // for each run of a detached worker, and for detaching a worker
)
