package egress

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func policy(t *testing.T, allow, deny string, loopback bool) *Policy {
	t.Helper()
	p, err := NewPolicy(strings.Fields(allow), strings.Fields(deny), loopback)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAllowedAddresses(t *testing.T) {
	const ok = ""
	for _, tt := range []struct {
		name        string
		allow, deny string
		loopback    bool
		host, addr  string
		want        string // part of the reason, "" when allowed
	}{
		{"a public address is ordinary", "", "", false, "a", "93.184.216.34:443", ok},
		{"private networks are ordinary", "", "", false, "a", "10.0.0.1:80", ok},
		{"private networks are ordinary (172.16)", "", "", false, "a", "172.16.0.1:80", ok},
		{"private networks are ordinary (192.168)", "", "", false, "a", "192.168.0.1:80", ok},
		{"shared address space is ordinary", "", "", false, "a", "100.64.0.1:80", ok},
		{"unique local IPv6 is ordinary", "", "", false, "a", "[fd12::1]:80", ok},
		{"a private network can be denied", "", "10.0.0.0/8", false, "a", "10.0.0.1:80", "deny list"},

		{"loopback is closed", "", "", false, "a", "127.0.0.1:80", "loopback"},
		{"all of 127/8 is loopback", "", "", false, "a", "127.1.2.3:80", "loopback"},
		{"IPv6 loopback is closed", "", "", false, "a", "[::1]:80", "loopback"},
		{"mapped loopback is closed", "", "", false, "a", "[::ffff:127.0.0.1]:80", "loopback"},
		{"allowLoopback opens loopback", "", "", true, "a", "127.0.0.1:80", ok},
		{"allowLoopback opens mapped loopback", "", "", true, "a", "[::ffff:127.0.0.1]:80", ok},
		{"allowLoopback opens nothing else", "", "", true, "a", "0.0.0.0:80", "unspecified"},
		{"an entry opens loopback on its ports", "127.0.0.1:18000-18100", "", false, "a", "127.0.0.1:18050", ok},
		{"and not on others", "127.0.0.1:18000-18100", "", false, "a", "127.0.0.1:19000", "loopback"},
		{"an allow list also limits allowLoopback", "127.0.0.1:18000-18100", "", true, "a", "127.0.0.1:19000", "not on the allow list"},

		{"metadata is closed", "", "", true, "a", "169.254.169.254:80", "metadata"},
		{"mapped metadata is closed", "", "", true, "a", "[::ffff:a9fe:a9fe]:80", "metadata"},
		{"metadata behind NAT64 is closed", "", "", true, "a", "[64:ff9b::a9fe:a9fe]:80", "metadata"},
		{"metadata behind 6to4 is closed", "", "", true, "a", "[2002:a9fe:a9fe::1]:80", "metadata"},
		{"Teredo is closed", "", "", true, "a", "[2001::1]:80", "tunnel"},
		{"an ordinary address behind NAT64 is ordinary", "", "", true, "a", "[64:ff9b::5db8:d822]:80", ok},
		{"a denied address behind NAT64 is denied", "", "10.0.0.0/8", true, "a", "[64:ff9b::a00:1]:80", "deny list"},
		{"AWS metadata over IPv6 is closed", "", "", true, "a", "[fd00:ec2::254]:80", "metadata"},
		{"Alibaba metadata is closed", "", "", true, "a", "100.100.100.200:80", "metadata"},
		{"everything does not mean metadata", "0.0.0.0/0 ::/0", "", true, "a", "169.254.169.254:80", "metadata"},
		{"link-local does not mean metadata", "169.254.0.0/16", "", true, "a", "169.254.169.254:80", "metadata"},
		{"link-local can be opened", "169.254.0.0/16", "", true, "a", "169.254.1.1:80", ok},
		{"metadata can be opened by its address", "169.254.169.254:80", "", false, "a", "169.254.169.254:80", ok},
		{"a name does not open metadata", "metadata.internal", "", true, "metadata.internal", "169.254.169.254:80", "metadata"},
		{"a name does not open loopback", "a.example", "", false, "a.example", "127.0.0.1:80", "loopback"},

		{"port 0 is none", "", "", true, "a", "10.0.0.1:0", "port 0"},
		{"SSH is closed", "", "", true, "a", "10.0.0.1:22", "SSH"},
		{"mail is closed", "", "", true, "a", "10.0.0.1:25", "SMTP"},
		{"PostgreSQL is closed", "", "", true, "a", "127.0.0.1:5432", "PostgreSQL"},
		{"Redis is closed", "", "", true, "a", "[fd12::1]:6379", "Redis"},
		{"an entry for all ports opens none of them", "10.0.0.0/8 a", "", true, "a", "10.0.0.1:5432", "PostgreSQL"},
		{"an entry for the port opens it", "10.0.0.0/8:5432", "", true, "a", "10.0.0.1:5432", ok},
		{"an entry for a range opens those in it", "a:6000-7000", "", true, "a", "10.0.0.1:6379", ok},
		{"an entry for another address does not", "10.0.0.0/8 10.0.0.2:22", "", true, "a", "10.0.0.1:22", "SSH"},

		{"link-local is closed", "", "", true, "a", "169.254.1.1:80", "link-local"},
		{"IPv6 link-local is closed", "", "", true, "a", "[fe80::1%eth0]:80", "link-local"},
		{"the unspecified address is closed", "", "", true, "a", "0.0.0.0:80", "unspecified"},
		{"IPv6 unspecified is closed", "", "", true, "a", "[::]:80", "unspecified"},
		{"multicast is closed", "", "", true, "a", "224.0.0.1:80", "multicast"},
		{"IPv6 multicast is closed", "", "", true, "a", "[ff02::1]:80", "multicast"},
		{"broadcast is closed", "", "", true, "a", "255.255.255.255:80", "broadcast"},

		{"an allow list excludes the rest", "10.0.0.0/8", "", true, "a", "192.168.0.1:80", "not on the allow list"},
		{"an allowed name may be anywhere ordinary", "a.example", "", true, "a.example", "192.168.0.1:80", ok},
		{"an allowed address may have any name", "192.168.0.1", "", true, "b.example", "192.168.0.1:80", ok},
		{"deny wins over allow", "10.0.0.0/8", "10.1.0.0/16", true, "a", "10.1.0.1:80", "deny list"},
		{"a denied name wins over an allowed address", "10.0.0.0/8", "*.evil.test", true, "a.evil.test", "10.0.0.1:80", "host is on the deny list"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := policy(t, tt.allow, tt.deny, tt.loopback).Check(tt.host, netip.MustParseAddrPort(tt.addr))
			if tt.want == ok {
				if err != nil {
					t.Errorf("Check = %v, want nil", err)
				}
				return
			}
			var denied *Denied
			if !errors.As(err, &denied) || !strings.Contains(denied.Reason, tt.want) {
				t.Fatalf("Check = %v, want a *Denied because of %q", err, tt.want)
			}
			if !strings.Contains(err.Error(), tt.host) ||
				denied.Addr.Addr() != netip.MustParseAddrPort(tt.addr).Addr().Unmap().WithZone("") {
				t.Errorf("error %q, address %s: want the host %s and the address %s", err, denied.Addr, tt.host, tt.addr)
			}
		})
	}
}
