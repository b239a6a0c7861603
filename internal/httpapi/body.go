package httpapi

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/rest"
)

// paced is a body that must come at a minimum rate, so that nobody holds a connection
// with a byte now and then. Only the time for which the server waits for the client
// counts, not what it does between two pieces.
type paced struct {
	io.ReadCloser
	out     *http.ResponseController
	grace   time.Duration // for which the rate does not count
	rate    int           // bytes per second; 0: any
	each    time.Duration // for one piece; 0: any
	until   time.Time     // for all of it; zero: any
	waited  time.Duration
	arrived int64
}

// pace bounds how long the server waits for the body of r, also for one that nobody
// reads: net/http does that before it lets a connection go.
func (s *server) pace(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 {
		return
	}
	l := s.cfg.Limits
	b := &paced{ReadCloser: r.Body, out: http.NewResponseController(w), grace: l.BodyGrace, rate: l.MinBodyRate,
		until: time.Now().Add(l.ReadTimeout)}
	if b.bound() == nil {
		r.Body = b
	}
}

// streamed makes it a body that may come for as long as it likes, wait at most for each
// piece.
func (b *paced) streamed(wait time.Duration) {
	b.grace, b.each, b.until = wait, wait, time.Time{}
}

// bound sets until when the next piece must be there.
func (b *paced) bound() error {
	now := time.Now()
	end := b.until
	earlier := func(d time.Duration) {
		if at := now.Add(d); end.IsZero() || at.Before(end) {
			end = at
		}
	}
	if b.rate > 0 {
		earned := time.Duration(float64(b.arrived) / float64(b.rate) * float64(time.Second))
		earlier(b.grace + earned - b.waited)
	}
	if b.each > 0 {
		earlier(b.each)
	}
	return b.out.SetReadDeadline(end)
}

// Read reads what has come. Fault: Slow.
func (b *paced) Read(p []byte) (int, error) {
	if b.arrived > 0 || b.each > 0 { // else pace has set it
		if err := b.bound(); err != nil {
			return 0, err
		}
	}
	if b.each > 0 { // the answer gets as long after the last piece
		if err := b.out.SetWriteDeadline(time.Now().Add(2 * b.each)); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	n, err := b.ReadCloser.Read(p)
	b.waited, b.arrived = b.waited+time.Since(start), b.arrived+int64(n)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fault.New(fault.Slow, rest.CodeTooSlow, "the body did not arrive in time: of it, %d bytes came", b.arrived).Because(err)
	}
	return n, err
}
