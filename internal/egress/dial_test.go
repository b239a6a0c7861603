package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// resolver answers every A query with the addresses that answer returns for the n-th
// one, from 1.
func resolver(t *testing.T, answer func(n int) []string) *net.Resolver {
	var asked atomic.Int64
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			raw := make([]byte, 2048)
			n, err := server.Read(raw)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if err := m.Unpack(raw[2:n]); err != nil { // two bytes of length: DNS over a stream
				t.Errorf("query: %v", err)
				return
			}
			m.Header.Response, m.Additionals = true, nil
			if m.Questions[0].Type == dnsmessage.TypeA {
				for _, a := range answer(int(asked.Add(1))) {
					m.Answers = append(m.Answers, dnsmessage.Resource{
						Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET},
						Body:   &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()},
					})
				}
			}
			reply, err := m.AppendPack(make([]byte, 2))
			if err != nil {
				t.Errorf("reply: %v", err)
				return
			}
			reply[0], reply[1] = byte((len(reply)-2)>>8), byte(len(reply)-2)
			_, _ = server.Write(reply) // the resolver may have gone away
		}()
		return client, nil
	}}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func port(l net.Listener) string {
	_, p, _ := net.SplitHostPort(l.Addr().String())
	return p
}

func TestDeniedAddressIsNeverConnectedTo(t *testing.T) {
	decoy := listen(t)
	p := policy(t, "", "", false)
	p.Resolver = resolver(t, func(int) []string { return []string{"127.0.0.1", "0.0.0.0", "127.0.0.2"} })
	dial := p.DialContext(5 * time.Second)
	for _, host := range []string{"127.0.0.1", "::ffff:127.0.0.1", "::ffff:7f00:1", "0.0.0.0", "::", "::1",
		"decoy.example", "127.0.0.1.nip.example"} {
		conn, err := dial(t.Context(), "tcp", net.JoinHostPort(host, port(decoy)))
		var denied *Denied
		if !errors.As(err, &denied) {
			t.Errorf("dial %s: %v, %v; want *Denied", host, conn, err)
		}
	}
	// Connections wait in the listener's queue, so the first one found there
	// must be the one made now, on purpose.
	own, err := net.Dial("tcp", decoy.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	first, err := decoy.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if first.RemoteAddr().String() != own.LocalAddr().String() {
		t.Errorf("the decoy was connected to from %s", first.RemoteAddr())
	}
}

func TestAnAllowedConnectionIsMade(t *testing.T) {
	l := listen(t)
	dial := policy(t, "127.0.0.1:"+port(l), "", false).DialContext(0)
	conn, err := dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestDNSRebindingIsRefusedAtTheNextConnection(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close") // so that every request dials
		io.WriteString(w, "hello")
	}))
	defer srv.Close()
	p := policy(t, "shop.example", "", true)
	p.Resolver = resolver(t, func(n int) []string {
		if n == 1 {
			return []string{"127.0.0.1"}
		}
		return []string{"169.254.169.254"}
	})
	client := &http.Client{Transport: &http.Transport{DialContext: p.DialContext(5 * time.Second)}}
	defer client.CloseIdleConnections()
	url := "http://shop.example:" + port(srv.Listener)

	resp, err := client.Get(url)
	if err != nil {
		t.Fatalf("while the name is harmless: %v", err)
	}
	resp.Body.Close()
	_, err = client.Get(url)
	var denied *Denied
	if !errors.As(err, &denied) || denied.Addr.Addr().String() != "169.254.169.254" {
		t.Errorf("after the name moved to the metadata service: %v; want *Denied", err)
	}
}

func TestDeniedNameIsNotLookedUp(t *testing.T) {
	p := policy(t, "", "*.evil.example:80", true)
	p.Resolver = resolver(t, func(int) []string { t.Error("the name was looked up"); return nil })
	_, err := p.DialContext(0)(t.Context(), "tcp", "a.evil.example:80")
	var denied *Denied
	if !errors.As(err, &denied) || strings.Contains(err.Error(), "invalid") {
		t.Errorf("dial: %v; want *Denied without an address", err)
	}
}

func TestAddressInUnusualNotationIsNotLookedUp(t *testing.T) {
	p := policy(t, "", "", true)
	p.Resolver = resolver(t, func(int) []string { t.Error("it was looked up"); return nil })
	for _, address := range []string{
		"0x7f000001:80", "0177.0.0.1:80", "2130706433:80", "127.1:80", "db.internal:5432", "db.internal:0",
	} {
		_, err := p.DialContext(0)(t.Context(), "tcp", address)
		var denied *Denied
		if !errors.As(err, &denied) {
			t.Errorf("dial %s: %v; want *Denied", address, err)
		}
	}
}

func TestFailureOfAnAllowedAddressIsNotAPolicyError(t *testing.T) {
	l := listen(t)
	closed := port(l)
	l.Close()
	p := policy(t, "", "127.0.0.2", true)
	p.Resolver = resolver(t, func(int) []string { return []string{"127.0.0.2", "127.0.0.1"} })
	_, err := p.DialContext(5*time.Second)(t.Context(), "tcp", "two.example:"+closed)
	var denied *Denied
	if err == nil || errors.As(err, &denied) {
		t.Errorf("dial: %v; want an error that is not *Denied: one address may be reached later", err)
	}
}

func TestUnixSocketsAreNotDialed(t *testing.T) {
	_, err := policy(t, "", "", true).DialContext(0)(t.Context(), "unix", "/tmp/x:80")
	var denied *Denied
	if !errors.As(err, &denied) {
		t.Errorf("dial of a Unix socket: %v; want *Denied", err)
	}
}
