package postgres

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	keepAlive = 15 * time.Second
	// Limits for the attempt to set up a session with one server, unless the address sets
	// connect_timeout. With several servers, a silent one must not delay the attempts at the
	// others; a lone server may be busy and gets more time.
	connectWithin = 2 * time.Second
	connectAlone  = 10 * time.Second
	// grace is how long a server has to confirm that it has canceled a statement.
	grace = time.Second
)

// dialer makes connections on which no read or write waits forever. With plain lib/pq they do when
// the peer goes silent, even if the context has ended.
type dialer struct {
	net.Dialer
	io    time.Duration
	lines *lines        // nil: connections are not tracked
	due   time.Duration // time within which the server must answer a statement; 0: unknown
	idle  bool          // the server owes no answer: the connection is used to LISTEN
}

func (d dialer) Dial(network, addr string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, addr)
}

func (d dialer) DialTimeout(network, addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, addr)
}

func (d dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := d.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (d dialer) dial(ctx context.Context, network, addr string) (*line, error) {
	c, err := d.Dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	l := &line{Conn: c, io: d.io, lines: d.lines, due: d.due, idle: d.idle}
	if d.lines != nil {
		l.of = d.lines.add(l, c.RemoteAddr().String())
	}
	return l, nil
}

// line is a connection to a server. Each read and write ends at the earliest of these: after io, at
// the deadline that the driver has set (for the handshake), soon after the context of the statement
// has ended, or at once when all connections to the server are abandoned.
type line struct {
	net.Conn
	io      time.Duration
	lines   *lines
	due     time.Duration
	idle    bool
	of      *peer        // nil if lines is nil
	reading atomic.Int64 // when the current read began, in nanoseconds; 0: no read is in progress

	mu        sync.Mutex
	driver    time.Time // guarded by mu, like the fields below; zero: none
	cut       time.Time // zero: none
	asked     bool      // the server was asked to cancel the statement that is cut off
	statement int       // counter, so that the end of an earlier statement's context has no effect
	given     bool      // up
}

// past is a deadline for operations that must end at once.
var past = time.Unix(1, 0)

// limit returns the deadline of an operation that begins now.
func (l *line) limit(now time.Time) time.Time {
	if l.given {
		return past
	}
	at := now.Add(l.io)
	for _, other := range []time.Time{l.driver, l.cut} {
		if !other.IsZero() && other.Before(at) {
			at = other
		}
	}
	return at
}

func (l *line) Read(b []byte) (int, error) {
	now := time.Now()
	l.mu.Lock()
	err := l.Conn.SetReadDeadline(l.limit(now))
	l.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if l.of == nil {
		return l.Conn.Read(b)
	}
	before := l.of.heard.Load()
	l.reading.Store(now.UnixNano())
	n, err := l.Conn.Read(b)
	l.reading.Store(0)
	if n > 0 {
		l.of.heard.Add(1)
	} else if err != nil && l.evident(now) {
		l.lines.silent(l.of, before)
	}
	return n, err
}

// evident reports whether a failed read, which started at began, shows that the server is silent.
// That is the case if a deadline has passed (for the handshake, for the answer to a cancel request,
// or for any read) after a long enough wait. A commit, which is not canceled, may wait for a
// standby.
func (l *line) evident(began time.Time) bool {
	now := time.Now()
	passed := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	l.mu.Lock()
	defer l.mu.Unlock()
	over := passed(l.driver) || l.asked && passed(l.cut) || now.Sub(began) >= l.io
	return over && !l.given && now.Sub(began) >= silence*3/4 // the handshake started earlier, so allow some slack
}

func (l *line) Write(b []byte) (int, error) {
	l.mu.Lock()
	err := l.Conn.SetWriteDeadline(l.limit(time.Now()))
	l.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return l.Conn.Write(b)
}

// SetDeadline is called by the driver for the handshake, and with the zero time after it.
func (l *line) SetDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.driver = t
	return l.Conn.SetDeadline(l.limit(time.Now()))
}

// SetReadDeadline is the same as SetDeadline: no caller needs to set only one.
func (l *line) SetReadDeadline(t time.Time) error { return l.SetDeadline(t) }

// SetWriteDeadline is the same as SetDeadline: no caller needs to set only one.
func (l *line) SetWriteDeadline(t time.Time) error { return l.SetDeadline(t) }

func (l *line) Close() error {
	if l.lines != nil {
		l.lines.remove(l, l.of)
	}
	return l.Conn.Close()
}

// until limits a statement: it ends within wait after ctx has ended, whatever the server does.
// asked is whether the server is asked to cancel it. Call the returned function when the statement
// has ended.
func (l *line) until(ctx context.Context, wait time.Duration, asked bool) (ended func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	l.mu.Lock()
	l.statement++
	n := l.statement
	l.mu.Unlock()
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.statement == n {
			l.cut, l.asked = time.Now().Add(wait), asked
			_ = l.Conn.SetDeadline(l.limit(l.cut)) // fails only once it is closed
		}
	})
	return func() {
		stop()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.statement == n {
			l.statement++
			l.cut, l.asked = time.Time{}, false
		}
	}
}

// giveUp ends all operations of the connection, now and in future.
func (l *line) giveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.given = true
	_ = l.Conn.SetDeadline(past) // fails only once it is closed
}

func (l *line) awaits() (since int64, due time.Duration) {
	if l.idle {
		return 0, 0
	}
	return l.reading.Load(), l.due
}

func (l *line) givenUp() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.given
}

// remembering is the dialer of one session. It keeps the connection that it made while the session
// was set up. After that, it dials only to cancel statements, which must not take longer than grace
// because the driver waits for it.
type remembering struct {
	dialer
	attempt context.Context // context of the setup

	mu   sync.Mutex
	last *line // guarded by mu; the connection below TLS
	done bool  // guarded by mu: the session is set up
}

func (d *remembering) DialTimeout(network, addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, addr)
}

func (d *remembering) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	d.mu.Lock()
	done := d.done
	d.mu.Unlock()
	if done {
		return d.dialToCancel(ctx, network, addr)
	}
	c, err := d.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.last = c
	d.mu.Unlock()
	if d.attempt.Err() != nil { // abandon was called before the connection was made
		c.giveUp()
	}
	return c, nil
}

func (d *remembering) dialToCancel(ctx context.Context, network, addr string) (net.Conn, error) {
	end := time.Now().Add(grace)
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	only := dialer{Dialer: d.Dialer, io: grace}
	c, err := only.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.cut = end
	return c, nil
}

// abandon ends the setup.
func (d *remembering) abandon() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last != nil && !d.done {
		d.last.giveUp()
	}
}

// complete returns the connection of the session once the session is set up.
func (d *remembering) complete() *line {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = true
	return d.last
}
