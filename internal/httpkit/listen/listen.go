// Package listen accepts the connections of the API. It limits how many connections one client may
// hold, and detects requests with two lengths, which net/http does not report.
//
// Files, each on top of those before it: framing, listen, tls.
package listen

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Listener accepts connections up to a maximum for each client address.
type Listener struct {
	net.Listener
	max     int
	refused func()

	mu   sync.Mutex
	open map[netip.Prefix]int // guarded by mu
}

// Limit returns a listener that immediately closes a connection if its address already holds max
// others, and calls refused. A max of 0 means no limit.
func Limit(l net.Listener, max int, refused func()) *Listener {
	return &Listener{Listener: l, max: max, refused: refused, open: map[netip.Prefix]int{}}
}

// Accept returns the next connection from a client that is below its limit.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		client := clientOf(conn.RemoteAddr())
		if l.enter(client) {
			return &Conn{Conn: conn, leave: sync.OnceFunc(func() { l.leave(client) })}, nil
		}
		l.refused()
		conn.Close()
	}
}

// clientOf returns the unit that counts as one client: an IPv4 address, or the /64 of an IPv6
// address, because all of it belongs to one machine or site.
func clientOf(addr net.Addr) netip.Prefix {
	at, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return netip.Prefix{}
	}
	ip := at.Addr().Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	return netip.PrefixFrom(ip, bits).Masked()
}

func (l *Listener) enter(client netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.max > 0 && l.open[client] >= l.max {
		return false
	}
	l.open[client]++
	return true
}

func (l *Listener) leave(client netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[client]--; l.open[client] == 0 {
		delete(l.open, client)
	}
}

// Conn is a connection that Listener has accepted.
type Conn struct {
	net.Conn
	leave   func()
	framing framing
	both    atomic.Bool
}

// Read reads, and detects heads with two lengths.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.framing.follow(p[:n]) {
		c.both.Store(true)
	}
	return n, err
}

// Close closes the connection and releases it from the client's limit.
func (c *Conn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

type connKey struct{}

// WithConn stores a connection in the context of its requests. It is meant for http.Server.ConnContext.
func WithConn(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*Conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// TwoLengths reports whether a request head with both Content-Length and Transfer-Encoding has
// arrived on the connection of a request. A proxy in front may then see different requests than
// this server (RFC 9112, 6.3). net/http silently drops the Content-Length. It is always false over
// TLS, where the bytes are not visible here.
func TwoLengths(ctx context.Context) bool {
	c, ok := ctx.Value(connKey{}).(*Conn)
	return ok && c.both.Load()
}
