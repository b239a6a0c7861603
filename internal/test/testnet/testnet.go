// Package testnet gives tests addresses on loopback, and certificates for them.
package testnet

import (
	"net"
	"testing"
)

// ClosedAddress returns an address, host:port, that refuses connections until the test ends. It
// is the local port of an open connection: the port of a closed listener could be given to
// another test.
func ClosedAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	own, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = own.Close() })
	return own.LocalAddr().String() // the port of a connection: taken, without a listener
}
