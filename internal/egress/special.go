package egress

import "net/netip"

// block is a range of special addresses, where participants are not expected.
type block struct {
	prefix   netip.Prefix
	meaning  string
	loopback bool // Policy.loopback opens the block
}

// blocks are always denied, unless an allow entry names an address or a network inside the block.
// An address may belong to several blocks, and each of them must be opened. So allowing
// 169.254.0.0/16 leaves the metadata service closed.
var blocks = []block{
	{prefix: netip.MustParsePrefix("127.0.0.0/8"), meaning: "loopback", loopback: true},
	{prefix: netip.MustParsePrefix("::1/128"), meaning: "loopback", loopback: true},

	{prefix: netip.MustParsePrefix("169.254.169.254/32"), meaning: "metadata service"},     // most clouds
	{prefix: netip.MustParsePrefix("169.254.170.2/32"), meaning: "metadata service"},       // AWS ECS
	{prefix: netip.MustParsePrefix("fd00:ec2::/32"), meaning: "metadata service"},          // AWS: IMDS, EKS
	{prefix: netip.MustParsePrefix("fd20:ce::254/128"), meaning: "metadata service"},       // Google
	{prefix: netip.MustParsePrefix("fd00:42::42/128"), meaning: "metadata service"},        // Scaleway
	{prefix: netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), meaning: "metadata service"}, // Oracle
	{prefix: netip.MustParsePrefix("100.100.100.200/32"), meaning: "metadata service"},     // Alibaba
	{prefix: netip.MustParsePrefix("168.63.129.16/32"), meaning: "metadata service"},       // Azure
	{prefix: netip.MustParsePrefix("192.0.0.192/32"), meaning: "metadata service"},         // Oracle

	{prefix: netip.MustParsePrefix("0.0.0.0/8"), meaning: "unspecified"}, // Linux connects 0.0.0.0 to itself
	{prefix: netip.MustParsePrefix("::/128"), meaning: "unspecified"},
	{prefix: netip.MustParsePrefix("169.254.0.0/16"), meaning: "link-local"},
	{prefix: netip.MustParsePrefix("fe80::/10"), meaning: "link-local"},
	{prefix: netip.MustParsePrefix("224.0.0.0/4"), meaning: "multicast"},
	{prefix: netip.MustParsePrefix("ff00::/8"), meaning: "multicast"},
	{prefix: netip.MustParsePrefix("240.0.0.0/4"), meaning: "reserved or broadcast"},
	{prefix: netip.MustParsePrefix("64:ff9b:1::/48"), meaning: "local translation"}, // hides an IPv4 address
	{prefix: netip.MustParsePrefix("2001::/32"), meaning: "tunnel"},                 // Teredo, likewise
}

// services lists the ports of services that an HTTP request must not reach, because some of them
// would execute parts of the request as commands.
var services = map[uint16]string{
	22: "SSH", 23: "Telnet", 25: "SMTP", 53: "DNS", 110: "POP3", 143: "IMAP", 389: "LDAP", 445: "SMB", 465: "SMTP",
	587: "SMTP", 636: "LDAP", 1433: "SQL Server", 1521: "Oracle", 2379: "etcd", 2380: "etcd", 3306: "MySQL", 3389: "RDP",
	5432: "PostgreSQL", 6379: "Redis", 6432: "PgBouncer", 9042: "Cassandra", 9092: "Kafka", 11211: "memcached",
	27017: "MongoDB",
}

// disguised is the reason for denying hosts such as 0177.0.0.1.
const disguised = "an IPv4 address must be written as four decimal numbers without leading zeros"

// closedPort returns the service on a port that must not be reached at name and a, or "" if the
// port is open.
func (p *Policy) closedPort(name string, a netip.Addr, port uint16) string {
	return p.closedUnless(port, func(r rule) bool { return r.matchesAddr(a, port) || r.matchesName(name, port) })
}

// closedPortOf is closedPort for a name whose addresses are unknown, so any entry with an address
// may open the port.
func (p *Policy) closedPortOf(name string, port uint16) string {
	return p.closedUnless(port, func(r rule) bool {
		return r.matchesPort(port) && r.prefix.IsValid() || r.matchesName(name, port)
	})
}

func (p *Policy) closedUnless(port uint16, opened func(rule) bool) string {
	if port == 0 {
		return "port 0"
	}
	service := services[port]
	if service == "" {
		return ""
	}
	for _, r := range p.allow {
		if r.lo > 0 && opened(r) { // an entry for all ports is not meant to open this one
			return ""
		}
	}
	return service
}

// closed returns the description of the block that closes a:port, or "" if none does.
func (p *Policy) closed(a netip.Addr, port uint16) string {
	for _, b := range blocks {
		if b.prefix.Contains(a) && !(b.loopback && p.loopback) && !p.opens(b, a, port) {
			return b.meaning
		}
	}
	return ""
}

// opens reports whether an allow entry for a:port is inside b and therefore meant to open it.
// 0.0.0.0/0 allows much, but not the metadata service.
func (p *Policy) opens(b block, a netip.Addr, port uint16) bool {
	for _, r := range p.allow {
		if r.matchesAddr(a, port) && r.prefix.Bits() >= b.prefix.Bits() {
			return true
		}
	}
	return false
}

var (
	nat64  = netip.MustParsePrefix("64:ff9b::/96")
	sixTo4 = netip.MustParsePrefix("2002::/16")
)

// translated returns the IPv4 address to which a gateway would translate a, otherwise the zero
// Addr.
func translated(a netip.Addr) netip.Addr {
	raw := a.As16()
	switch {
	case nat64.Contains(a):
		return netip.AddrFrom4([4]byte(raw[12:16]))
	case sixTo4.Contains(a):
		return netip.AddrFrom4([4]byte(raw[2:6]))
	}
	return netip.Addr{}
}
