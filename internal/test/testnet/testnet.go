// Package testnet gives tests addresses on loopback, certificates for them, and an identity provider.
package testnet

import (
	"fmt"
	"math/rand/v2"
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

// FreeAddress returns a host:port on loopback for a server that another program starts. The port is
// free now, and none of those that the kernel gives away: the port of a closed listener could be
// taken before the program has it.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close()
			return addr
		}
	}
	t.Fatal("no free port in a hundred tries")
	return ""
}
