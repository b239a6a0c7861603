package httpapi

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
)

// paced is a body that must arrive at a minimum rate, so that a client cannot occupy a connection
// by sending a byte now and then. Only the time during which the server waits for the client
// counts, not the time between two reads.
type paced struct {
	io.ReadCloser
	out     *http.ResponseController
	grace   time.Duration // grace period, during which the rate does not apply
	rate    int           // bytes per second; 0: no minimum
	each    time.Duration // time limit per read; 0: no limit
	until   time.Time     // deadline for the whole body; zero: no limit
	waited  time.Duration
	arrived int64
}

// pace limits how long the server waits for the body of r. This matters even if no handler reads
// the body, because net/http drains it before it reuses the connection.
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

// streamed allows unlimited time for the whole body, but at most wait for each read.
func (b *paced) streamed(wait time.Duration) {
	b.grace, b.each, b.until = wait, wait, time.Time{}
}

// bound sets the deadline of the next read.
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

// Read reads the next part of the body. Fault: Slow.
func (b *paced) Read(p []byte) (int, error) {
	if b.arrived > 0 || b.each > 0 { // otherwise pace has already set the deadline
		if err := b.bound(); err != nil {
			return 0, err
		}
	}
	if b.each > 0 { // the response gets the same time, counted from the last read
		if err := b.out.SetWriteDeadline(time.Now().Add(2 * b.each)); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	n, err := b.ReadCloser.Read(p)
	b.waited, b.arrived = b.waited+time.Since(start), b.arrived+int64(n)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fault.New(fault.Slow, httpkit.CodeTooSlow, "the body did not arrive in time; bytes received: %d", b.arrived).Because(err)
	}
	return n, err
}
