//go:build unix

package postgres

import (
	"net"
	"syscall"
)

// probe looks at the socket of an idle session without waiting.
type probe struct{ raw syscall.RawConn } // nil: cannot look

func newProbe(c net.Conn) probe {
	if sc, ok := c.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			return probe{raw}
		}
	}
	return probe{}
}

// quiet tells whether the server has said nothing and not hung up. Between
// statements it speaks only to say goodbye. A byte that this takes away is no
// loss: the session is given up.
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
