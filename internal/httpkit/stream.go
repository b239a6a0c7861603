package httpkit

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"
)

// Live is a response that is sent in parts, as they become available.
type Live struct {
	Buf  bytes.Buffer // data that Flush sends
	Sent time.Time    // time of the last send

	limit time.Duration
	w     http.ResponseWriter
	out   *http.ResponseController
}

// Start sends the headers.
func (l *Live) Start(w http.ResponseWriter, media string, limits *Limits) {
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Cache-Control", NotStored)
	h.Set("X-Accel-Buffering", "no") // otherwise buffering proxies would hold back the response
	w.WriteHeader(http.StatusOK)
	l.w, l.out, l.limit, l.Sent = w, http.NewResponseController(w), limits.StreamWrite, time.Now()
	_ = l.out.SetReadDeadline(time.Time{}) // the request has been read
}

// Flush sends the buffer. The server's write deadline, which is for whole responses, is replaced
// with one for this part. An error means that the client has disconnected or is too slow.
func (l *Live) Flush() error {
	err := l.out.SetWriteDeadline(time.Now().Add(l.limit))
	if err == nil {
		_, err = l.w.Write(l.Buf.Bytes())
	}
	if err == nil {
		err = l.out.Flush()
	}
	l.Buf.Reset()
	l.Sent = time.Now()
	return err
}

// Stream sends server-sent events to one client until the client disconnects or is too slow, the
// server begins to stop, or the stream reaches its maximum age. It must be used by only one
// goroutine.
type Stream struct {
	Live
	// Mark returns the ID of the current position if it has not been sent, or "" if it has or if
	// events have no IDs. It is added to messages without data, so that events that did not match
	// need not be read again after a reconnect.
	Mark func() string

	kit    *Kit
	ctx    context.Context //nolint:containedctx // the context of the request that the stream answers
	leave  func()
	quiet  *time.Timer // fires when nothing has been sent for a while
	age    *time.Timer // fires at the stream's maximum age
	closed bool        // the client has disconnected or is too slow, or the stream has ended
	hinted bool        // reconnect has been sent
}

// reconnect tells clients after how many milliseconds to reconnect. It is part of the first event,
// because some clients take a separate block for an event without data.
const reconnect = "retry: 1000\n"

// Stream takes one of the stream slots of the request's tenant; Run releases it. Fault: TooMany.
func (k *Kit) Stream(ctx context.Context) (*Stream, error) {
	leave, err := k.Streams.Enter(ctx)
	if err != nil {
		return nil, err
	}
	return &Stream{kit: k, ctx: ctx, leave: leave, Mark: func() string { return "" }}, nil
}

// Run writes the stream: send is called until the stream has ended.
func (st *Stream) Run(w http.ResponseWriter, send func()) {
	defer st.leave()
	st.Start(w, MediaStream, &st.kit.Limits)
	if RequestOf(st.ctx).Method == http.MethodHead {
		return
	}
	st.quiet, st.age = time.NewTimer(st.kit.Limits.StreamSilence), time.NewTimer(st.kit.Limits.StreamAge)
	defer st.quiet.Stop()
	defer st.age.Stop()
	st.message(": open\n") // so that the client gets the headers before the first event
	for !st.closed {
		send()
	}
}

// Next returns the next value of a channel, and sends keep-alives while it waits. ok is false if
// the channel is closed or the stream has ended.
func Next[T any](st *Stream, from <-chan T) (v T, ok bool) {
	for !st.closed {
		select {
		case <-st.ctx.Done():
			st.closed = true
		case <-st.kit.Stopping:
			st.End(nil)
		case <-st.age.C:
			st.End(nil)
		case <-st.quiet.C:
			st.message(": still here\n")
		case v, ok = <-from:
			return v, ok
		}
	}
	return v, false
}

// Ended reports whether the stream has ended. It ends the stream if the server is stopping or the
// stream is too old.
func (st *Stream) Ended() bool {
	select {
	case <-st.kit.Stopping:
		st.End(nil)
	case <-st.age.C:
		st.End(nil)
	default:
	}
	return st.closed
}

// Event adds an event to the buffer, and sends the buffer when it is full. id may be "". It returns
// false if the stream has ended.
func (st *Stream) Event(id, kind string, data any) bool {
	text, err := json.Marshal(data)
	if err != nil {
		st.End(err)
		return false
	}
	if !st.hinted {
		st.Buf.WriteString(reconnect)
		st.hinted = true
	}
	if id != "" {
		st.Buf.WriteString("id: " + id + "\n")
	}
	st.Buf.WriteString("event: " + kind + "\ndata: ")
	st.Buf.Write(text)
	if st.Buf.WriteString("\n\n"); st.Buf.Len() >= StreamChunk {
		st.Send()
	}
	return !st.closed
}

// Send sends the content of the buffer.
func (st *Stream) Send() {
	if st.closed || st.Buf.Len() == 0 {
		return
	}
	if err := st.Flush(); err != nil {
		st.closed = true
	}
	st.quiet.Reset(st.kit.Limits.StreamSilence)
}

// End closes the stream; the client reconnects with its last ID. because is an error of the server,
// or nil.
func (st *Stream) End(because error) {
	if st.closed {
		return
	}
	if because != nil && st.ctx.Err() == nil {
		req := RequestOf(st.ctx)
		st.kit.Log.WarnContext(st.ctx, "stream interrupted", slog.String("request_id", req.ID),
			slog.String("path", req.Path), slog.Any("error", because))
	}
	st.message(": connect again\n")
	st.closed = true
}

// message sends a message without data.
func (st *Stream) message(lines string) {
	st.Buf.WriteString(lines)
	if id := st.Mark(); id != "" {
		st.Buf.WriteString("id: " + id + "\n")
	}
	st.Buf.WriteString("\n")
	st.Send()
}
