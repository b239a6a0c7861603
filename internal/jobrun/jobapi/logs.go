package jobapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/loop"
)

const (
	logPage = 16                     // number of chunks read at once
	logPoll = 400 * time.Millisecond // poll interval for a followed log
)

// runLog is the response that contains the log of a run.
type runLog struct {
	httpkit.Live
	s       *Handlers
	ctx     context.Context //nolint:containedctx // of the request, which this responds to
	tenant  uuid.UUID
	run     jobrun.Run
	stored  io.ReadCloser // the log in the log store; nil: the log is in the database
	leave   func()        // releases the stream's slot; nil: there is no slot
	media   string
	bare    bool   // a HEAD request: no body
	attempt int    // show only this attempt; 0: all attempts
	stream  string // only this stream; "": all
	follow  bool
	next    jobrun.LogPosition // where to continue
	end     jobrun.LogPosition // only chunks before it
	tail    int                // show about this many bytes from the end; 0: the whole log
}

// errLogLeft ends a response whose client has disconnected or is too slow.
var errLogLeft = errors.New("the client reading the log disconnected")

// GetRunLog checks the parameters. The returned response writes the log.
func (s *Handlers) GetRunLog(ctx context.Context, in api.GetRunLogRequestObject) (api.Response, error) {
	req, p := httpkit.RequestOf(ctx), in.Params
	l := &runLog{
		s: s, ctx: ctx, tenant: req.Tenant.ID, bare: req.Method == http.MethodHead,
		stream: httpkit.Text(p.Stream), follow: p.Follow != nil && *p.Follow, end: jobrun.LogEnd,
	}
	l.media = httpkit.Preferred(httpkit.Text(p.Accept), httpkit.MediaNDJSON, httpkit.MediaText, httpkit.MediaStream)
	if p.Format != nil {
		l.media = logFormats[string(*p.Format)]
	}
	if p.Attempt != nil {
		l.attempt = int(*p.Attempt)
		l.next.Attempt = l.attempt
	}
	if err := l.between(&p); err != nil {
		return nil, err
	}
	if err := l.read(in.RunID); err != nil {
		return nil, err
	}
	if l.run.LogRef != "" {
		if s.Offloaded == nil {
			return nil, fault.New(fault.Unavailable, fault.CodeUnavailable, "the log is in a log store that is not configured on this server: set jobs.log_offload_url")
		}
		var err error
		l.stored, err = s.Offloaded(ctx, &l.run)
		return l, err
	}
	if l.follow {
		var err error
		if l.leave, err = s.Streams.Enter(ctx); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// between determines which chunks are sent.
func (l *runLog) between(p *api.GetRunLogParams) (err error) {
	if p.Before != nil {
		if l.follow {
			return httpkit.BadParameter("before", "invalid", "cannot be combined with follow: new chunks come after that position")
		}
		if l.end, err = logPosition(httpkit.BadParameter, "before", *p.Before); err != nil {
			return err
		}
	}
	switch {
	case p.LastEventID != nil && *p.LastEventID != "":
		l.next, err = logPosition(httpkit.BadHeader, "Last-Event-ID", *p.LastEventID)
		l.next.Seq++
	case p.AfterSeq != nil && p.Attempt == nil:
		return httpkit.BadParameter("after_seq", "required", "requires attempt")
	case p.AfterSeq != nil && p.TailBytes != nil:
		return httpkit.BadParameter("tail_bytes", "invalid", "cannot be combined with after_seq, which already determines where to begin")
	case p.AfterSeq != nil:
		l.next.Seq = int(*p.AfterSeq) + 1
	case p.TailBytes != nil:
		l.tail = int(*p.TailBytes)
	}
	return err
}

// logPosition parses the event id of a chunk.
func logPosition(bad func(name, code, format string, args ...any) *fault.Error,
	name, text string) (at jobrun.LogPosition, err error) {
	var more string
	n, _ := fmt.Sscanf(text, "%d.%d%s", &at.Attempt, &at.Seq, &more)
	if n != 2 || at.Attempt < 1 || at.Seq < 0 || !at.Before(jobrun.LogEnd) {
		return at, bad(name, "invalid", "is not an event id of this stream, such as 1.20")
	}
	return at, nil
}

// logFormats lists the values of the parameter format.
var logFormats = map[string]string{"text": httpkit.MediaText, "ndjson": httpkit.MediaNDJSON, "sse": httpkit.MediaStream}

// read reads the run again.
func (l *runLog) read(id uuid.UUID) (err error) {
	ctx, cancel := l.s.Bounded(l.ctx)
	defer cancel()
	l.run, err = l.s.Runs.Run(ctx, l.tenant, id)
	return err
}

// Write writes the log. If the log is followed, it also writes new chunks until the run has ended.
func (l *runLog) Write(w http.ResponseWriter) error {
	if l.leave != nil {
		defer l.leave()
	}
	if l.stored != nil {
		defer func() { l.stored.Close() }()
	}
	media := l.media
	if media == httpkit.MediaText {
		media += "; charset=utf-8"
	}
	if l.Start(w, media, &l.s.Limits); l.bare {
		return nil
	}
	err := l.send()
	if err == nil {
		err = l.flush()
	}
	if err != nil && !errors.Is(err, errLogLeft) && l.ctx.Err() == nil {
		l.s.Log.WarnContext(l.ctx, "reading a job run's log was interrupted", slog.String("request_id", httpkit.RequestOf(l.ctx).ID), slog.Any("error", err))
		if l.media != httpkit.MediaStream {
			panic(http.ErrAbortHandler) // a truncated log must not look complete
		}
	}
	return nil
}

// send sends all existing chunks and, if requested, new ones.
func (l *runLog) send() error {
	over := time.Now().Add(l.s.Limits.StreamAge)
	for {
		if l.stored != nil {
			return l.sendStored()
		}
		ended := l.run.State.Terminal() || l.attempt > 0 && l.run.Attempt > l.attempt
		if err := l.sendChunks(); err != nil {
			return err
		}
		switch {
		case l.follow && !ended:
			if goOn, err := l.pause(over); err != nil || !goOn {
				return err
			}
		default: // its log may have been offloaded since the run was read
			if err := l.read(l.run.ID); err != nil || l.run.LogRef == "" {
				return err
			}
		}
		if err := l.read(l.run.ID); err != nil {
			return err
		}
		if l.run.LogRef != "" && l.s.Offloaded != nil {
			var err error
			if l.stored, err = l.s.Offloaded(l.ctx, &l.run); err != nil {
				return err
			}
		}
	}
}

// sendChunks sends the chunks in the database.
func (l *runLog) sendChunks() error {
	if l.tail > 0 {
		ctx, cancel := l.s.Bounded(l.ctx)
		at, err := l.s.Runs.LogTail(ctx, l.tenant, l.run.ID, l.attempt, l.end, l.tail, l.stream)
		cancel()
		if err != nil {
			return err
		}
		l.next, l.tail = at, 0 // send continues after these chunks
	}
	for {
		ctx, cancel := l.s.Bounded(l.ctx)
		chunks, err := l.s.Runs.Logs(ctx, l.tenant, l.run.ID, l.next, logPage)
		cancel()
		if err != nil {
			return err
		}
		for i := range chunks {
			if err := l.chunk(&chunks[i]); err != nil {
				return err
			}
		}
		if len(chunks) < logPage || !l.next.Before(l.end) {
			return l.flush()
		}
	}
}

// sendStored sends the log from the log store.
func (l *runLog) sendStored() error {
	lines := json.NewDecoder(l.stored)
	var last []jobrun.LogChunk // the last chunks, if only the end of the log is sent
	bytes := 0
	for {
		var line jobrun.LogLine
		switch err := lines.Decode(&line); {
		case errors.Is(err, io.EOF):
			for i := range last {
				if err := l.chunk(&last[i]); err != nil {
					return err
				}
			}
			return nil
		case err != nil:
			return err
		}
		c := line.Content()
		if c.Before(l.next) || !c.Before(l.end) || l.attempt > 0 && c.Attempt != l.attempt ||
			l.stream != "" && c.Stream != l.stream {
			continue
		}
		if l.tail == 0 {
			if err := l.chunk(&c); err != nil {
				return err
			}
			continue
		}
		last, bytes = append(last, c), bytes+len(c.Body)
		for bytes-len(last[0].Body) >= l.tail {
			last, bytes = last[1:], bytes-len(last[0].Body)
		}
	}
}

// chunk writes one chunk, unless its attempt or stream is filtered out.
func (l *runLog) chunk(c *jobrun.LogChunk) error {
	if !c.Before(l.end) {
		l.next = l.end // nothing is left to send
		return nil
	}
	if l.attempt > 0 && c.Attempt != l.attempt {
		return nil
	}
	l.next = jobrun.LogPosition{Attempt: c.Attempt, Seq: c.Seq + 1}
	if l.stream != "" && c.Stream != l.stream {
		return nil
	}
	if l.media == httpkit.MediaText {
		l.Buf.Write(c.Body)
	} else {
		line, err := json.Marshal(jobrun.LineOf(c))
		if err != nil {
			return err
		}
		if l.media == httpkit.MediaStream {
			fmt.Fprintf(&l.Buf, "id: %d.%d\nevent: log\ndata: %s\n\n", c.Attempt, c.Seq, line)
		} else {
			l.Buf.Write(append(line, '\n'))
		}
	}
	if l.Buf.Len() >= httpkit.StreamChunk {
		return l.flush()
	}
	return nil
}

// pause waits for the next poll. It returns false if the response must end.
func (l *runLog) pause(over time.Time) (bool, error) {
	if l.media == httpkit.MediaStream && time.Since(l.Sent) >= l.s.Limits.StreamSilence {
		l.Buf.WriteString(": still here\n\n")
		if err := l.flush(); err != nil {
			return false, err
		}
	}
	switch stopping := loop.Await(l.ctx, logPoll, l.s.Stopping); {
	case stopping:
		return false, nil
	case l.ctx.Err() != nil:
		return false, errLogLeft
	}
	return time.Now().Before(over), nil
}

// flush sends the buffer within the time limit for clients.
func (l *runLog) flush() error {
	if l.Buf.Len() == 0 {
		return nil
	}
	if err := l.Flush(); err != nil {
		return errLogLeft
	}
	return nil
}
