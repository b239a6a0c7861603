//go:build !unix

package postgres

import "net"

// probe cannot inspect a socket on this platform; its next statement detects that the server has
// closed a session.
type probe struct{}

func newProbe(net.Conn) probe { return probe{} }

func (probe) quiet() bool { return true }
