//go:build unix

package postgres

import (
	"net"
	"syscall"
)

// probe inspects the socket of an idle session without waiting.
type probe struct{ raw syscall.RawConn } // nil: the socket cannot be inspected

func newProbe(c net.Conn) probe {
	if sc, ok := c.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			return probe{raw}
		}
	}
	return probe{}
}

// quiet reports whether the server has neither sent anything nor closed the connection. Between
// statements, the server sends data only before it closes the connection. The probe may consume a
// byte, which does not matter because the session is then abandoned.
func (p probe) quiet() bool {
	if p.raw == nil {
		return true
	}
	idle := false
	err := p.raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, err := syscall.Read(int(fd), b[:])
		idle = err == syscall.EAGAIN
		return true
	})
	return err == nil && idle
}
