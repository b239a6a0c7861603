package egress

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// rule is one entry of a list: addresses or a name, plus ports.
type rule struct {
	prefix netip.Prefix // valid for an address rule
	name   string       // otherwise a name: "orders.internal", or ".example.com" for every name below it
	lo, hi uint16       // port range, inclusive
}

func (r rule) matchesPort(port uint16) bool { return r.lo <= port && port <= r.hi }

func (r rule) matchesAddr(a netip.Addr, port uint16) bool {
	return r.prefix.IsValid() && r.matchesPort(port) && r.prefix.Contains(a)
}

// matchesName expects a host as normalName returns it.
func (r rule) matchesName(host string, port uint16) bool {
	if r.name == "" || !r.matchesPort(port) {
		return false
	}
	return r.name == host || r.name[0] == '.' && strings.HasSuffix(host, r.name)
}

// localhost contains the addresses that "localhost" always means (RFC 6761), so that the entry
// "localhost" opens loopback in the same way as its addresses.
var localhost = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func parseRules(list string, entries []string) ([]rule, error) {
	var rules []rule
	for i, entry := range entries {
		parsed, err := parseEntry(strings.TrimSpace(entry))
		if err != nil {
			return nil, fmt.Errorf("egress %s list, entry %d %q: %w", list, i+1, entry, err)
		}
		rules = append(rules, parsed...)
	}
	return rules, nil
}

func parseEntry(entry string) ([]rule, error) {
	target, ports := entry, ""
	if inner, bracketed := strings.CutPrefix(entry, "["); bracketed {
		var rest string
		var closed bool
		if target, rest, closed = strings.Cut(inner, "]"); !closed || !strings.Contains(target, ":") {
			return nil, fmt.Errorf("brackets are for IPv6 addresses")
		}
		if ports = strings.TrimPrefix(rest, ":"); rest != "" && len(ports) != len(rest)-1 || rest == ":" {
			return nil, fmt.Errorf("after the bracket only :PORT or :PORT-PORT may follow")
		}
	} else if strings.Count(entry, ":") == 1 { // more colons mean IPv6 without a port
		if target, ports, _ = strings.Cut(entry, ":"); ports == "" {
			return nil, fmt.Errorf("the port is missing")
		}
	}
	lo, hi, err := parsePorts(ports)
	if err != nil {
		return nil, err
	}
	if strings.EqualFold(target, "localhost") {
		return []rule{{prefix: localhost[0], lo: lo, hi: hi}, {prefix: localhost[1], lo: lo, hi: hi}}, nil
	}
	r := rule{lo: lo, hi: hi}
	if r.prefix, err = parsePrefix(target); err == nil && !r.prefix.IsValid() {
		r.name, err = parseName(target)
	}
	return []rule{r}, err
}

// parsePorts reads PORT or PORT-PORT; "" means every port.
func parsePorts(s string) (lo, hi uint16, err error) {
	if s == "" {
		return 0, 65535, nil
	}
	first, last, isRange := strings.Cut(s, "-")
	if !isRange {
		last = first
	}
	from, errFrom := strconv.ParseUint(first, 10, 16)
	to, errTo := strconv.ParseUint(last, 10, 16)
	if errFrom != nil || errTo != nil || from == 0 || from > to {
		return 0, 0, fmt.Errorf("%q is neither a port nor a range of ports", s)
	}
	return uint16(from), uint16(to), nil
}

// parsePrefix returns the zero Prefix for text that is neither an address nor a CIDR.
func parsePrefix(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return netip.Prefix{}, nil
		}
		if a.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("an address with a zone is not supported")
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("not a CIDR")
	}
	if p.Addr().Is4In6() { // addresses are unmapped before the comparison, so this could never match
		if p.Bits() < 96 {
			return netip.Prefix{}, fmt.Errorf("write IPv4 networks as IPv4")
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

var (
	validName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$`)
	// A numeric last label makes a "name" a disguised IPv4 address (127.1, 0x7f000001), which
	// entries must not contain.
	numericEnd = regexp.MustCompile(`(^|\.)([0-9]+|0x[0-9a-f]*)$`)
)

func parseName(s string) (string, error) {
	base, wildcard := strings.CutPrefix(s, "*.")
	name := normalName(base)
	switch {
	case len(name) > 253 || !validName.MatchString(name):
		return "", fmt.Errorf("not an address, a CIDR or a host name")
	case numericEnd.MatchString(name):
		return "", fmt.Errorf("looks like an IPv4 address but is not one")
	case wildcard:
		return "." + name, nil
	}
	return name, nil
}

// normalName returns the form in which host names are compared: lower case, without the final dot,
// and with internationalized names in their DNS form.
func normalName(host string) string {
	host = strings.TrimSuffix(host, ".")
	if ascii, err := idna.Lookup.ToASCII(host); err == nil {
		return ascii
	}
	return strings.ToLower(host) // names with an underscore, which IDNA rejects
}
