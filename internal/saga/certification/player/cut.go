package player

import (
	"context"
	"net"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/skald-saga/skald/sdk/conformance"
)

// cut sends a call and closes the connection as soon as the call is sent. It reports whether it did
// so before an answer arrived. In that case the call may still be running, or may not even have
// been read.
func (p *play) cut(ctx context.Context, call conformance.Call) (left bool) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	begun := func(context.Context) {}
	conn := &counted{sent: func() {
		begun(ctx)
		leave()
	}}
	req, err := p.request(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(how httptrace.WroteRequestInfo) { conn.buffered.Store(how.Err == nil) },
	}), call)
	if err != nil {
		return false
	}
	if p.leaves != nil {
		begun = p.leaves(req)
	}
	transport := p.transport.Clone()
	transport.DisableKeepAlives, transport.WriteBufferSize = true, maxAnswer
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := p.Dial(ctx, network, address)
		conn.Conn = c
		return conn, err
	}
	client := *p.client
	client.Transport = transport
	res, err := client.Do(req)
	if err == nil { // the answer was quicker
		res.Body.Close()
	}
	return err != nil && conn.whole.Load()
}

// counted is a connection for one request that signals when the request has been sent.
// http.Transport only signals that it has written the request to a buffer; the end of the request
// is in the connection's next write.
type counted struct {
	net.Conn

	sent            func()
	buffered, whole atomic.Bool
}

// Write implements net.Conn.
func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil && c.buffered.Load() && !c.whole.Swap(true) {
		c.sent()
	}
	return n, err
}
