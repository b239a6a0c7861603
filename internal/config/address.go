package config

import (
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/skald-saga/skald/internal/access"
)

func listenAddr(s string) bool {
	host, port, err := net.SplitHostPort(s)
	_, errPort := strconv.ParseUint(port, 10, 16)
	return err == nil && errPort == nil && (host == "" || isHost(host))
}

func loopbackAddr(s string) bool {
	host, _, _ := net.SplitHostPort(s)
	addr, err := netip.ParseAddr(host)
	return listenAddr(s) && (host == "localhost" || err == nil && addr.Unmap().IsLoopback())
}

func apiKey(s string) bool {
	_, ok := access.ParseToken(s)
	return ok
}

// issuerURL allows plain HTTP only on loopback: anyone who can change the issuer's keys can
// impersonate any caller.
func issuerURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Hostname() != "" && u.User == nil && u.Fragment == "" &&
		(u.Scheme == "https" || u.Scheme == "http" && loopbackAddr(net.JoinHostPort(u.Hostname(), "80")))
}

func dbHosts(s string) bool {
	for host := range strings.SplitSeq(s, ",") {
		if !strings.HasPrefix(host, "/") && !isHost(host) {
			return false
		}
	}
	return true
}

func egressEntry(s string) bool {
	target, ports := s, ""
	if rest, ok := strings.CutPrefix(s, "["); ok {
		if target, ports, ok = strings.Cut(rest, "]"); !ok || !strings.Contains(target, ":") {
			return false
		}
		if ports != "" && !strings.HasPrefix(ports, ":") {
			return false
		}
	} else if i := strings.Index(s, ":"); i == strings.LastIndex(s, ":") && i >= 0 {
		target, ports = s[:i], s[i:]
	}
	return isTarget(target) && (ports == "" || portRange(ports[1:]))
}

// isTarget accepts more names than isHost: internationalized names and wildcards, but nothing that
// resolvers parse as an address.
func isTarget(s string) bool {
	if _, err := netip.ParsePrefix(s); err == nil {
		return true
	}
	if addr, err := netip.ParseAddr(s); err == nil {
		return addr.Zone() == ""
	}
	name := strings.TrimPrefix(s, "*.")
	return len(name) <= 253 && targetName.MatchString(name) && !disguised.MatchString(name)
}

var (
	targetName = regexp.MustCompile(
		`^[\pL\pN_]([\pL\pN\pM_-]*[\pL\pN\pM_])?(\.[\pL\pN_]([\pL\pN\pM_-]*[\pL\pN\pM_])?)*\.?$`,
	)
	disguised = regexp.MustCompile(`(?i)(^|\.)([0-9]+|0x[0-9a-f]*)\.?$`) // 127.1, 0x7f000001
)

func portRange(s string) bool {
	low, high, isRange := strings.Cut(s, "-")
	if !isRange {
		high = low
	}
	from, errFrom := strconv.ParseUint(low, 10, 16)
	to, errTo := strconv.ParseUint(high, 10, 16)
	return errFrom == nil && errTo == nil && 1 <= from && from <= to
}

var hostName = regexp.MustCompile(
	`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?$`,
)

// numeric matches what looks like an IPv4 address and therefore must be one.
var numeric = regexp.MustCompile(`^[0-9.]+$`)

// isHost reports whether s is an IP address or a host name, without a port.
func isHost(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	return len(s) <= 253 && hostName.MatchString(s) && !numeric.MatchString(s)
}

// broker reports whether s is host:port with both parts.
func broker(s string) bool {
	host, port, err := net.SplitHostPort(s)
	n, errPort := strconv.ParseUint(port, 10, 16)
	return err == nil && errPort == nil && n > 0 && host != "" && isHost(host)
}
