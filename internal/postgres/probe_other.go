//go:build !unix

package postgres

import "net"

// probe cannot inspect a socket on this platform: a session that the server has closed is
// detected by its next statement.
type probe struct{}

func newProbe(net.Conn) probe { return probe{} }

func (probe) quiet() bool { return true }
