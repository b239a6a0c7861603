// Package testnet gives tests addresses on loopback, certificates for them, and an identity provider.
package testnet

import (
	"errors"
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
	return own.LocalAddr().String() // this port belongs to a connection, so it is taken but has no listener
}

// These are ports of services that Skald refuses to call (package egress). There is no other such
// port between them.
const memcached, mongoDB = 11211, 27017

// Free returns a loopback address, host:port, for a server that another program starts. The port is
// free now and outside the range that the kernel assigns: the port of a closed listener could be
// taken before the program listens on it, or while the program is down.
func Free() (string, error) {
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", memcached+1+rand.IntN(mongoDB-memcached-1))
		if l, err := net.Listen("tcp", addr); err == nil {
			return addr, l.Close()
		}
	}
	return "", errors.New("no free port in a hundred tries")
}

// FreeAddress is Free for a test, which it ends if there is no free port.
func FreeAddress(t testing.TB) string {
	t.Helper()
	addr, err := Free()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}
