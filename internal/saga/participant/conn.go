package participant

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/skald-saga/skald/internal/egress"
	"github.com/skald-saga/skald/internal/failpoint"
)

const (
	maxHead          = 256 << 10 // maximum size of an answer's head, in bytes
	maxInformational = 5         // 1xx answers before the final one
	maxCopied        = 32 << 10  // a larger body is not copied after the head
	usualRequest     = 1 << 10   // enough for the head and the body of most requests
	usualAnswer      = 512       // enough for the body of most answers
)

// conn is a connection to a participant. Only one call at a time owns it; abort is the only method
// that others may call.
type conn struct {
	net.Conn       // the TCP connection, or TLS over it
	tcp      probe // checks the TCP connection while it is idle
	r        *bufio.Reader
	left     int64       // number of bytes that may still be read; limits the head of an answer
	readErr  error       // the error that ended the stream, nil while it is open
	since    time.Time   // when it became idle; guarded by the pool
	secure   *tls.Config // the TLS configuration it was opened with; nil means no TLS
	answered bool        // an answer has arrived on it
	heard    bool        // bytes have arrived since the last request began
}

func newConn(tcp net.Conn) *conn {
	c := &conn{Conn: tcp, left: math.MaxInt64}
	if sc, ok := tcp.(syscall.Conn); ok {
		c.tcp.raw, _ = sc.SyscallConn() // nil on failure: then the connection is not probed
	}
	c.r = bufio.NewReader(limited{c})
	return c
}

// quiet reports whether the idle connection can take a request: the other end has neither closed it
// nor sent unsolicited bytes.
func (c *conn) quiet() bool { return c.tcp.quiet() }

// abort makes the exchange in progress fail immediately. It is safe to call from any goroutine.
func (c *conn) abort() {
	_ = c.SetDeadline(time.Unix(1, 0)) // an error means that it is already closed
}

var errHeadTooLarge = errors.New("the headers of the response are too large")

// limited reads from the connection, but no more than conn.left bytes.
type limited struct{ c *conn }

func (l limited) Read(p []byte) (int, error) {
	if l.c.left <= 0 {
		l.c.readErr = errHeadTooLarge
		return 0, errHeadTooLarge
	}
	n, err := l.c.Conn.Read(p)
	l.c.left -= int64(n)
	l.c.heard = l.c.heard || n > 0
	l.c.readErr = err
	return n, err
}

// answer is a participant's answer. Its status and headers are complete; its body is whatever has
// been received.
type answer struct {
	status     int
	header     http.Header
	retryAfter string
	body       []byte
	tooLarge   bool  // the body exceeds the limit
	broken     error // why the body did not end properly; nil if it did
	zipped     bool  // the body was sent as gzip
	reusable   bool  // the connection can take another request
}

// success reports whether the status is 2xx. For any other status, the body only explains the status.
func (a *answer) success() bool { return a.status >= 200 && a.status < 300 }

// whole reports whether the complete body was received.
func (a *answer) whole() bool { return !a.tooLarge && a.broken == nil }

// exchange sends head and body once and receives the answer, within the connection's deadline. sent
// is false only if nothing at all has left this process, so that the participant cannot have acted.
func (c *conn) exchange(head, body []byte, maxBody int64) (a answer, sent bool, err error) {
	if len(body) <= maxCopied { // one packet where possible, otherwise two writes
		head = append(head, body...)
		body = nil
	}
	c.heard = false
	n, writeErr := c.Write(head)
	if writeErr == nil && len(body) > 0 {
		_, writeErr = c.Write(body)
	}
	if n == 0 && writeErr != nil {
		return answer{}, false, writeErr
	}
	_ = failpoint.Hit(failpoint.StepAfterSend)
	// A participant may refuse a large request and close the connection before it has read all of
	// it. Its answer may then be readable although the write failed.
	a, err = c.receive(maxBody)
	if err != nil && writeErr != nil && !egress.RefusedUs(err) {
		err = writeErr
	}
	a.reusable, c.answered = a.reusable && writeErr == nil, true
	return a, true, err
}

// asPOST tells http.ReadResponse that the answer may have a body.
var asPOST = &http.Request{Method: http.MethodPost}

func (c *conn) receive(maxBody int64) (answer, error) {
	var resp *http.Response
	c.left = maxHead
	for range 1 + maxInformational {
		var err error
		//nolint:bodyclose // read to its end below, on a connection of ours
		if resp, err = http.ReadResponse(c.r, asPOST); err != nil {
			// A line cut off by the end of the stream is not an invalid response.
			return answer{}, cmp.Or(c.readErr, err)
		}
		if resp.StatusCode/100 != 1 || resp.StatusCode == http.StatusSwitchingProtocols {
			break
		}
	}
	c.left = math.MaxInt64
	a := answer{status: resp.StatusCode, header: resp.Header, retryAfter: resp.Header.Get("Retry-After")}
	c.readBody(&a, resp, maxBody)
	if a.broken != nil && a.success() {
		return answer{}, a.broken
	}
	// Bytes after the answer do not belong to any request of this client.
	a.reusable = !resp.Close && !a.zipped && a.whole() && resp.StatusCode >= 200 && c.r.Buffered() == 0
	return a, nil
}

// readBody reads the body up to its end, the limit or an error. A success whose declared length
// exceeds the limit is not read.
func (c *conn) readBody(a *answer, resp *http.Response, maxBody int64) {
	if resp.ContentLength > maxBody {
		if a.tooLarge = true; a.success() {
			return
		}
	}
	var body io.Reader = resp.Body
	a.zipped = strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip")
	if a.zipped { // it was not requested, but it is possible anyway
		plain, err := gzip.NewReader(body)
		switch {
		case errors.Is(err, io.EOF):
			return // there is no body
		case err != nil:
			a.broken = c.unzipped()
			return
		}
		body = plain
	}
	for int64(len(a.body)) <= maxBody {
		if len(a.body) == cap(a.body) {
			a.body = slices.Grow(a.body, max(usualAnswer, len(a.body)+1))
		}
		n, err := body.Read(a.body[len(a.body):cap(a.body)])
		a.body = a.body[:len(a.body)+n]
		switch {
		case err == io.EOF:
			a.tooLarge = a.tooLarge || int64(len(a.body)) > maxBody
			return
		case err != nil && a.zipped:
			a.broken = c.unzipped()
			return
		case err != nil:
			a.broken = err
			return
		}
	}
	a.tooLarge = true
}

var errNotGzip = errors.New("its body is not valid gzip, although Content-Encoding declares it")

// unzipped returns why a body could not be decompressed: either the connection broke, or the gzip
// data is invalid.
func (c *conn) unzipped() error { return cmp.Or(c.readErr, errNotGzip) }
