//go:build unix

package participant

import "syscall"

// probe looks at a TCP connection without waiting. Without it the first call
// over a connection that the participant has closed meanwhile would be sent
// into the void and end as unknown.
type probe struct {
	raw  syscall.RawConn // nil: cannot look
	idle bool
	buf  [1]byte
}

// quiet tells whether a read would wait. A byte that it takes away is no loss:
// a connection with unasked bytes is given up.
func (p *probe) quiet() bool {
	if p.raw == nil {
		return true
	}
	p.idle = false
	err := p.raw.Read(func(fd uintptr) bool {
		_, err := syscall.Read(int(fd), p.buf[:])
		p.idle = err == syscall.EAGAIN
		return true
	})
	return err == nil && p.idle
}
