package participant

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/idna"
)

// target is a parsed URL, prepared once for all calls.
type target struct {
	key     string // connections to targets with the same key are interchangeable
	tls     bool
	host    string // name or address for the certificate
	address string // host:port to dial
	line    string // the request line after the method, and the Host header
}

// maxTargets limits the cache. URLs come from definitions, so it is rare that more than this many
// are in use at the same time. The only cost is then that they are parsed again.
const maxTargets = 4096

// targets caches parsed URLs. The zero value is ready for use.
type targets struct {
	mu    sync.RWMutex
	byURL map[string]*target // guarded by mu
}

func (ts *targets) of(rawURL string) (*target, error) {
	ts.mu.RLock()
	t := ts.byURL[rawURL]
	ts.mu.RUnlock()
	if t != nil {
		return t, nil
	}
	t, err := parseTarget(rawURL)
	if err != nil {
		return nil, err
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.byURL == nil || len(ts.byURL) >= maxTargets {
		ts.byURL = make(map[string]*target)
	}
	ts.byURL[rawURL] = t
	return t, nil
}

var errURL = errors.New("the URL is not an absolute http or https URL without a user name")

func parseTarget(rawURL string) (*target, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return nil, errURL
	}
	t := &target{host: u.Hostname()}
	port := "80"
	switch u.Scheme {
	case "http":
	case "https":
		t.tls, port = true, "443"
	default:
		return nil, errURL
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return nil, errURL
		}
		port = p
	}
	if !isASCII(t.host) {
		if t.host, err = idna.Lookup.ToASCII(t.host); err != nil || t.host == "" {
			return nil, errURL
		}
	}
	t.address = net.JoinHostPort(t.host, port)
	t.key = u.Scheme + "://" + t.address
	name, _, _ := strings.Cut(t.host, "%") // the zone of an IPv6 address is only meaningful on this machine
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	if u.Port() != "" {
		name += ":" + port
	}
	t.line = string(appendEncoded([]byte{' '}, u.RequestURI())) + " HTTP/1.1\r\nHost: " + name + "\r\n"
	return t, nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// appendEncoded appends s and percent-encodes every byte that is not allowed in a request line or
// header: blanks, control characters and everything that is not ASCII.
func appendEncoded(b []byte, s string) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(s) {
		if c := s[i]; c > ' ' && c < 0x7f {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return b
}
