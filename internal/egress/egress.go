// Package egress decides which addresses Skald may connect to when it calls URLs given by users,
// such as those of participants and webhooks.
//
// A URL proves nothing: its host name may resolve to any address, and to a different one a moment
// later. So the decision is based on the resolved address of every connection, right before it is
// opened.
package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Policy decides where connections may go. It is created by NewPolicy, is safe for concurrent use
// and does not change. The zero Policy allows every ordinary address but no loopback addresses.
type Policy struct {
	// Resolver looks up host names; nil means the system's. Set it before the first dial.
	Resolver *net.Resolver

	allow, deny []rule
	loopback    bool
}

// NewPolicy creates a policy from two lists. An entry is a host name, an address or a CIDR, each
// alone (all ports), with :PORT, or with :PORT-PORT; IPv6 with a port is in brackets;
// "*.example.com" is every name below example.com but not itself; "localhost" means the loopback
// addresses. The error names the first entry that is not one of these.
//
// A connection is refused if one of these conditions, checked in this order, is true:
//   - an entry of deny matches the requested host or the resolved address;
//   - the port is 0 or belongs to a service that does not use HTTP (SSH, mail, databases), unless
//     an entry of allow that names the port matches;
//   - the host is an address in an unusual spelling, such as 0x7f000001 or 127.1, which
//     some resolvers read as 127.0.0.1;
//   - the address is loopback (unless allowLoopback), link-local, a cloud's
//     metadata service, unspecified, multicast, broadcast or reserved, unless
//     an entry of allow names it by its address or by a network inside that range;
//   - allow is not empty and no entry matches the requested host or the address.
//
// Private networks (10.0.0.0/8 and so on) are ordinary: participants live there.
func NewPolicy(allow, deny []string, allowLoopback bool) (*Policy, error) {
	allowed, err := parseRules("allow", allow)
	if err != nil {
		return nil, err
	}
	denied, err := parseRules("deny", deny)
	if err != nil {
		return nil, err
	}
	return &Policy{allow: allowed, deny: denied, loopback: allowLoopback}, nil
}

// Denied is the error for a connection that the policy forbids. Nothing was sent.
type Denied struct {
	Host   string         // the requested host, without the port
	Addr   netip.AddrPort // the resolved address; the zero value if the host itself is denied
	Reason string         // reason, for operators
}

func (d *Denied) Error() string {
	if !d.Addr.IsValid() {
		return fmt.Sprintf("egress to %s denied: %s", d.Host, d.Reason)
	}
	return fmt.Sprintf("egress to %s at %s denied: %s", d.Host, d.Addr, d.Reason)
}

// Check returns nil or a *Denied for a connection to addr that was requested as host, which is a
// name or an address. addr must be valid.
func (p *Policy) Check(host string, addr netip.AddrPort) error {
	name, port := normalName(host), addr.Port()
	a := addr.Addr().Unmap().WithZone("")
	denied := func(reason string) error {
		return &Denied{Host: host, Addr: netip.AddrPortFrom(a, port), Reason: reason}
	}
	if p.deniesName(name, port) {
		return denied("the host is on the deny list")
	}
	if service := p.closedPort(name, a, port); service != "" {
		return denied("its port is closed (" + service + ")")
	}
	targets := []netip.Addr{a}
	if v4 := translated(a); v4.IsValid() {
		targets = append(targets, v4)
	}
	for _, target := range targets {
		for _, r := range p.deny {
			if r.matchesAddr(target, port) {
				return denied("the address is on the deny list")
			}
		}
		if meaning := p.closed(target, port); meaning != "" {
			return denied("the address is special (" + meaning + ")")
		}
	}
	if len(p.allow) == 0 {
		return nil
	}
	for _, r := range p.allow {
		if r.matchesAddr(a, port) || r.matchesName(name, port) {
			return nil
		}
	}
	return denied("not on the allow list")
}

// CheckHost checks a destination without looking up its name, and returns nil or a *Denied. For an
// address it returns the result of Check. A name that it accepts may still resolve to a denied
// address, which only the dial can detect.
func (p *Policy) CheckHost(host string, port uint16) error {
	if a, err := netip.ParseAddr(host); err == nil {
		return p.Check(host, netip.AddrPortFrom(a, port))
	}
	name := normalName(host)
	if a, err := netip.ParseAddr(name); err == nil { // written with non-ASCII digits
		return p.Check(host, netip.AddrPortFrom(a, port))
	}
	if numericEnd.MatchString(name) {
		return &Denied{Host: host, Reason: disguised}
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") { // loopback, regardless of the resolver (RFC 6761)
		return p.Check(host, netip.AddrPortFrom(localhost[0].Addr().Next(), port))
	}
	if p.deniesName(name, port) {
		return &Denied{Host: host, Reason: "the host is on the deny list"}
	}
	if service := p.closedPortOf(name, port); service != "" {
		return &Denied{Host: host, Reason: "its port is closed (" + service + ")"}
	}
	for _, r := range p.allow {
		if r.prefix.IsValid() || r.matchesName(name, port) {
			return nil // the entry matches it, or may match one of its addresses
		}
	}
	if len(p.allow) > 0 {
		return &Denied{Host: host, Reason: "not on the allow list"}
	}
	return nil
}

func (p *Policy) deniesName(name string, port uint16) bool {
	for _, r := range p.deny {
		if r.matchesName(name, port) {
			return true
		}
	}
	return false
}

// beforeLookUp returns the reason for denying a dial before the name is looked up, if there is one.
func (p *Policy) beforeLookUp(host string, port uint16) error {
	name := normalName(host)
	if p.deniesName(name, port) {
		return &Denied{Host: host, Reason: "the host is on the deny list"}
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil // Check decides
	}
	if _, err := netip.ParseAddr(name); err != nil && numericEnd.MatchString(name) {
		return &Denied{Host: host, Reason: disguised}
	}
	if service := p.closedPortOf(name, port); service != "" {
		return &Denied{Host: host, Reason: "its port is closed (" + service + ")"}
	}
	return nil
}

// DialContext returns a dial function, for net/http for example, that connects only where the
// policy allows. timeout limits one connection attempt, including the lookup; 0 leaves the limit to
// the context. The function's error wraps *Denied if the policy denied every address that it tried.
func (p *Policy) DialContext(
	timeout time.Duration,
) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, service, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		// This is decided before the lookup, so that a denied name is not even resolved.
		if port, err := strconv.ParseUint(service, 10, 16); err == nil {
			if err := p.beforeLookUp(host, uint16(port)); err != nil {
				return nil, err
			}
		}
		var tried atomic.Bool
		d := net.Dialer{
			Timeout: timeout, Resolver: p.Resolver,
			ControlContext: func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
				addr, err := netip.ParseAddrPort(resolved)
				if err != nil { // not an internet address, such as a Unix socket
					return &Denied{Host: host, Reason: "not an IP address"}
				}
				if err := p.Check(host, addr); err != nil {
					return err
				}
				tried.Store(true)
				return nil
			},
		}
		conn, err := d.DialContext(ctx, network, address)
		var denied *Denied
		if errors.As(err, &denied) && tried.Load() {
			// Another address of the host is allowed and may answer next time, so this is not a
			// denial.
			return nil, fmt.Errorf("dial %s: no allowed address answered", address)
		}
		return conn, err
	}
}
