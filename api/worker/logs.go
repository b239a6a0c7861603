package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	logChunk = 64 << 10    // largest request, in bytes
	logAfter = time.Second // a smaller chunk is sent after this time
	logBytes = 1 << 20     // buffer size in bytes; writes block when it is full
)

// logs sends the output of a run in the order in which it was written.
type logs struct {
	s    *session
	h    *held
	once sync.Once     // starts the sender
	end  chan struct{} // closed when the sender has ended
	wake chan struct{} // capacity 1

	mu      sync.Mutex
	room    *sync.Cond
	parts   []logPart
	size    int
	closed  bool // nothing more is written
	dropped bool // nothing more is sent
	seq     int
}

type logPart struct {
	stream string
	body   []byte
}

// logWriter is one stream of a run's log.
type logWriter struct {
	l      *logs
	stream string
}

func newLogs(s *session, h *held) *logs {
	l := &logs{s: s, h: h, end: make(chan struct{}), wake: make(chan struct{}, 1)}
	l.room = sync.NewCond(&l.mu)
	return l
}

func (l *logs) writer(stream string) *logWriter { return &logWriter{l, stream} }

// Write never fails, because a run must not fail because of its log. It blocks while the buffer is
// full.
func (w *logWriter) Write(p []byte) (int, error) {
	l := w.l
	l.once.Do(func() { go l.send() })
	l.mu.Lock()
	defer l.mu.Unlock()
	for rest := p; len(rest) > 0; {
		for l.size >= logBytes && !l.dropped && !l.closed {
			l.room.Wait()
		}
		if l.dropped || l.closed {
			break
		}
		last := len(l.parts) - 1
		if last < 0 || l.parts[last].stream != w.stream || len(l.parts[last].body) >= logChunk {
			l.parts = append(l.parts, logPart{stream: w.stream})
			last++
		}
		n := min(len(rest), logChunk-len(l.parts[last].body))
		l.parts[last].body = append(l.parts[last].body, rest[:n]...)
		l.size += n
		rest = rest[n:]
	}
	if l.size >= logChunk {
		l.signal()
	}
	return len(p), nil
}

func (l *logs) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// close flushes the buffer and waits until everything was sent.
func (l *logs) close() { l.finish(false) }

// drop discards unsent output.
func (l *logs) drop() { l.finish(true) }

func (l *logs) finish(dropped bool) {
	began := true
	l.once.Do(func() { began = false })
	l.mu.Lock()
	l.closed, l.dropped = true, l.dropped || dropped
	l.mu.Unlock()
	l.room.Broadcast()
	if began {
		l.signal()
		<-l.end
	}
}

// send sends parts until the log is closed and everything was sent.
func (l *logs) send() {
	defer close(l.end)
	tick := time.NewTicker(logAfter)
	defer tick.Stop()
	for {
		select {
		case <-l.wake:
		case <-tick.C:
		}
		for {
			part, ok, over := l.next()
			if over {
				return
			}
			if !ok {
				break
			}
			l.put(part)
		}
	}
}

// next takes the next part. over means that there will be no more.
func (l *logs) next() (part logPart, ok, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped || l.closed && len(l.parts) == 0 {
		return part, false, true
	}
	if len(l.parts) == 0 {
		return part, false, false
	}
	part, l.parts = l.parts[0], l.parts[1:]
	l.size -= len(part.body)
	l.room.Broadcast()
	return part, true, false
}

// put repeats sending a part until it is stored or the run is lost.
func (l *logs) put(part logPart) {
	body := l.h.of(l.s.id, map[string]any{"seq": l.seq, "stream": part.stream})
	if utf8.Valid(part.body) && !hasNUL(part.body) {
		body["chunk"] = string(part.body)
	} else {
		body["chunk_base64"] = part.body
	}
	l.seq++
	for pause := newPause(); ; {
		err := l.s.w.api.post(context.Background(), 15*time.Second, "/api/v1/job-runs/"+l.h.RunID+"/logs", body, nil)
		if err == nil {
			return
		}
		if !unknown(err) || l.h.isLost() || time.Since(l.h.leaseEnd()) > l.s.w.cfg.ReportFor {
			l.s.log.Warn("cannot send the log of a run; dropping the rest of it", slog.String("run_id", l.h.RunID), slog.Any("error", err))
			l.mu.Lock()
			l.dropped = true
			l.mu.Unlock()
			l.room.Broadcast()
			return
		}
		_ = pause.wait(context.Background())
	}
}

func hasNUL(b []byte) bool {
	for _, c := range b {
		if c == 0 {
			return true
		}
	}
	return false
}
