package postgres

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

// dialer gives every read and write of a connection a deadline. Bare lib/pq
// waits forever when the peer goes silent, whatever the context says.
type dialer struct {
	net.Dialer
	io time.Duration
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
	c, err := d.Dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &deadlineConn{c, d.io}, nil
}

type deadlineConn struct {
	net.Conn
	io time.Duration
}

func (c *deadlineConn) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.io)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c *deadlineConn) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.io)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// remembering keeps the last connection that it made while a session is being set up:
// with several hosts, that is the one in use. Later it only dials to cancel statements.
type remembering struct {
	dialer
	last atomic.Pointer[deadlineConn] // before TLS; statements are canceled while others are
}

func (d *remembering) DialTimeout(network, addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, addr)
}

func (d *remembering) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := d.dialer.DialContext(ctx, network, addr)
	if dc, ok := c.(*deadlineConn); ok {
		d.last.Store(dc)
	}
	return c, err
}
