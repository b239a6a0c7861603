package egress

import (
	"net/netip"
	"strings"
	"testing"
)

func TestInvalidEntriesAreRefused(t *testing.T) {
	for _, entry := range []string{
		"", " ", "*", "*.", "*:443", "a b", "-a.example", "a..b", "http://a", "a/b", "user@a", "a_.b:x",
		"10.0.0.0/33", "10.0.0/8", "10.0.0.0/", "fd00::/129", "fe80::1%eth0", "fe80::/10%eth0", "::ffff:10.0.0.0/90",
		"127.1", "2130706433", "0x7f000001", "0x7f.1", "300.1.1.1", "*.1", "1.2.3.4.5",
		"a:", "a:0", "a:65536", "a:1-", "a:-1", "a:2-1", "a:1-2-3", "a:http", "a:+1", "10.0.0.0/8:", "10.0.0.0/8:0",
		"[10.0.0.1]:80", "[::1", "[::1]x", "[::1]:", "[::1]80", "[]:80", "[fd00::/8]/8:80", "[orders]:80",
		strings.Repeat("a.", 127) + "example",
	} {
		for _, list := range []string{"allow", "deny"} {
			allow, deny := []string{"10.0.0.0/8", entry}, []string(nil)
			if list == "deny" {
				allow, deny = nil, allow
			}
			p, err := NewPolicy(allow, deny, false)
			if err == nil || p != nil {
				t.Errorf("%s %q: policy %v, error %v; want an error", list, entry, p, err)
				continue
			}
			if want := "egress " + list + " list, entry 2"; !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s %q: error %q does not begin with %q", list, entry, err, want)
			}
		}
	}
}

func TestEntryMatchesExactlyItsAddresses(t *testing.T) {
	type dial struct{ host, addr string }
	for _, tt := range []struct {
		entry    string
		yes, not []dial
	}{
		{"10.1.2.3",
			[]dial{{"x", "10.1.2.3:1"}, {"x", "10.1.2.3:65535"}, {"x", "[::ffff:10.1.2.3]:80"}},
			[]dial{{"x", "10.1.2.4:80"}, {"10.1.2.3", "10.1.2.4:80"}}},
		{" 10.1.2.3:80 ", []dial{{"x", "10.1.2.3:80"}}, []dial{{"x", "10.1.2.3:81"}}},
		{"10.1.2.3:80-90", []dial{{"x", "10.1.2.3:80"}, {"x", "10.1.2.3:90"}}, []dial{{"x", "10.1.2.3:79"}, {"x", "10.1.2.3:91"}}},
		{"10.0.0.0/8", []dial{{"x", "10.255.255.255:80"}}, []dial{{"x", "11.0.0.0:80"}}},
		{"10.9.9.9/8:443", []dial{{"x", "10.0.0.1:443"}}, []dial{{"x", "10.0.0.1:80"}}},
		{"10.0.0.0/8:18000-18100", []dial{{"x", "10.0.0.1:18050"}}, []dial{{"x", "10.0.0.1:18101"}}},
		{"::ffff:10.0.0.0/104", []dial{{"x", "10.0.0.1:80"}}, []dial{{"x", "11.0.0.1:80"}}},
		{"::ffff:10.0.0.1", []dial{{"x", "10.0.0.1:80"}}, []dial{{"x", "10.0.0.2:80"}}},
		{"fd12::5", []dial{{"x", "[fd12::5]:80"}, {"x", "[fd12::5%eth0]:80"}}, []dial{{"x", "[fd12::6]:80"}}},
		{"[fd12::5]", []dial{{"x", "[fd12::5]:80"}}, []dial{{"x", "[fd12::6]:80"}}},
		{"[fd12::5]:80", []dial{{"x", "[fd12::5]:80"}}, []dial{{"x", "[fd12::5]:81"}}},
		{"fd12::/16", []dial{{"x", "[fd12:1::]:80"}}, []dial{{"x", "[fd13::]:80"}}},
		{"[fd12::/16]:80-81", []dial{{"x", "[fd12:1::]:81"}}, []dial{{"x", "[fd12:1::]:82"}}},
		{"orders",
			[]dial{{"orders", "10.0.0.1:80"}, {"ORDERS.", "10.0.0.1:80"}},
			[]dial{{"a.orders", "10.0.0.1:80"}, {"orders.a", "10.0.0.1:80"}, {"xorders", "10.0.0.1:80"}}},
		{"Orders.Internal.:8443", []dial{{"orders.internal", "10.0.0.1:8443"}}, []dial{{"orders.internal", "10.0.0.1:443"}}},
		{"*.example.com",
			[]dial{{"a.example.com", "10.0.0.1:80"}, {"b.a.EXAMPLE.com.", "10.0.0.1:80"}},
			[]dial{{"example.com", "10.0.0.1:80"}, {"aexample.com", "10.0.0.1:80"}, {"a.example.com.evil.test", "10.0.0.1:80"}}},
		{"*.example.com:80", []dial{{"a.example.com", "10.0.0.1:80"}}, []dial{{"a.example.com", "10.0.0.1:81"}}},
		{"bücher.example", []dial{{"xn--bcher-kva.example", "10.0.0.1:80"}, {"BÜCHER.example", "10.0.0.1:80"}}, []dial{{"bucher.example", "10.0.0.1:80"}}},
		{"my_service", []dial{{"My_Service", "10.0.0.1:80"}}, []dial{{"myservice", "10.0.0.1:80"}}},
		{"localhost:80", []dial{{"x", "127.0.0.1:80"}, {"x", "127.9.9.9:80"}, {"x", "[::1]:80"}}, []dial{{"localhost", "10.0.0.1:80"}, {"x", "127.0.0.1:81"}}},
	} {
		t.Run(tt.entry, func(t *testing.T) {
			allowing, err := NewPolicy([]string{tt.entry}, nil, false)
			if err != nil {
				t.Fatal(err)
			}
			denying, err := NewPolicy(nil, []string{tt.entry}, true)
			if err != nil {
				t.Fatal(err)
			}
			check := func(dials []dial, matches bool) {
				for _, d := range dials {
					addr := netip.MustParseAddrPort(d.addr)
					if err := allowing.Check(d.host, addr); (err == nil) != matches {
						t.Errorf("allow list, %s at %s: %v; want allowed = %t", d.host, d.addr, err, matches)
					}
					if err := denying.Check(d.host, addr); (err != nil) != matches {
						t.Errorf("deny list, %s at %s: %v; want denied = %t", d.host, d.addr, err, matches)
					}
				}
			}
			check(tt.yes, true)
			check(tt.not, false)
		})
	}
}

func FuzzParsedEntriesNeverOpenTheMetadataService(f *testing.F) {
	for _, s := range []string{"10.0.0.0/8", "*.a.b:1-2", "[::1]:80", "0.0.0.0/0", "169.254.0.0/16", "localhost",
		"::ffff:0:0/96", "::/0", "bücher.example"} {
		f.Add(s)
	}
	metadata := netip.MustParseAddrPort("169.254.169.254:80")
	f.Fuzz(func(t *testing.T, entry string) {
		p, err := NewPolicy([]string{entry}, nil, true)
		if err != nil {
			return
		}
		if p.Check("x", metadata) == nil && !strings.Contains(strings.ToLower(entry), "169.254.169.254") &&
			!strings.Contains(strings.ToLower(entry), "a9fe:a9fe") {
			t.Errorf("entry %q opens the metadata service", entry)
		}
	})
}
