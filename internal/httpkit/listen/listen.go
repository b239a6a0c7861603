// Package listen is how connections reach the API: how many one client may hold, and
// what their bytes say that net/http does not pass on.
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

// Listener accepts connections, as many as one address may hold at once.
type Listener struct {
	net.Listener
	max     int
	refused func()

	mu   sync.Mutex
	open map[netip.Prefix]int // guarded by mu
}

// Limit returns a listener that closes a connection at once when its address already
// holds max others; refused hears of each. max 0: there is no limit.
func Limit(l net.Listener, max int, refused func()) *Listener {
	return &Listener{Listener: l, max: max, refused: refused, open: map[netip.Prefix]int{}}
}

// Accept returns the next connection of a client that may hold one more.
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

// clientOf is what counts as one client: an IPv4 address, or the /64 of an IPv6 one, of
// which every address belongs to the same machine or site.
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

// Read reads, and takes note of heads with two lengths.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.framing.follow(p[:n]) {
		c.both.Store(true)
	}
	return n, err
}

// Close closes the connection and makes room for another one of the client.
func (c *Conn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

type connKey struct{}

// WithConn keeps a connection in the context of its requests: http.Server.ConnContext.
func WithConn(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*Conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// TwoLengths reports whether a request came over a connection on which a request head had both
// Content-Length and Transfer-Encoding: a proxy in front may have read another request than this
// server does (RFC 9112, 6.3). net/http takes the Content-Length away without a word. It is never
// true over TLS, where nothing sees the bytes.
func TwoLengths(ctx context.Context) bool {
	c, ok := ctx.Value(connKey{}).(*Conn)
	return ok && c.both.Load()
}
