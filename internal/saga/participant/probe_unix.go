//go:build unix

package participant

import "syscall"

// probe checks a TCP connection without blocking. Without it, the first call over a connection that
// the participant has closed in the meantime would be lost and end as unknown.
type probe struct {
	raw  syscall.RawConn // nil if it cannot be checked
	idle bool
	buf  [1]byte
}

// quiet reports whether a read would block. If it consumes a byte, nothing is lost, because a
// connection with unsolicited bytes is discarded.
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
