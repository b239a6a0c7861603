package egress

import "testing"

func TestChecksOfAHostWithoutLookup(t *testing.T) {
	policy := func(allow, deny []string, loopback bool) *Policy {
		p, err := NewPolicy(allow, deny, loopback)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	plain := policy(nil, nil, false)
	names := policy([]string{"hooks.example.com:443", "*.partners.example"}, nil, false)
	for _, tt := range []struct {
		name   string
		p      *Policy
		host   string
		port   uint16
		denied bool
	}{
		{"an ordinary name", plain, "example.com", 443, false},
		{"an ordinary address", plain, "192.0.2.1", 443, false},
		{"loopback by address", plain, "127.0.0.1", 443, true},
		{"loopback by IPv6", plain, "::1", 443, true},
		{"loopback in disguise", plain, "::ffff:127.0.0.1", 443, true},
		{"loopback by name", plain, "LOCALHOST.", 443, true},
		{"loopback by a name below it", plain, "a.localhost", 443, true},
		{"loopback where it is open", policy(nil, nil, true), "localhost", 443, false},
		{"the metadata service", plain, "169.254.169.254", 80, true},
		{"loopback in full-width digits", plain, "１２７.０.０.１", 443, true},
		{"loopback as one number", policy(nil, nil, true), "2130706433", 443, true},
		{"loopback in hexadecimal", policy(nil, nil, true), "0x7f000001", 443, true},
		{"loopback in capital hexadecimal, with a dot", policy(nil, nil, true), "0X7F.1.", 443, true},
		{"loopback in octal", policy(nil, nil, true), "0177.0.0.1", 443, true},
		{"loopback in short", policy(nil, nil, true), "127.1", 443, true},
		{"metadata in octal", policy([]string{"0.0.0.0/0"}, nil, true), "0251.0376.0251.0376", 80, true},
		{"metadata in circled digits", plain, "①⑥⑨.254.169.254", 80, true},
		{"metadata mapped into IPv6", plain, "::ffff:a9fe:a9fe", 80, true},
		{"a name that ends in letters and digits", plain, "node1.example", 443, false},
		{"port 0", plain, "example.com", 0, true},
		{"a database's port of a name", plain, "db.internal", 5432, true},
		{"... that is open", policy([]string{"db.internal:5432"}, nil, false), "db.internal", 5432, false},
		{"a name on the deny list", policy(nil, []string{"*.internal"}, false), "db.internal", 443, true},
		{"a name on the allow list", names, "hooks.example.com", 443, false},
		{"... at another port", names, "hooks.example.com", 444, true},
		{"a name below an entry", names, "a.partners.example", 1, false},
		{"a name on no list", names, "example.com", 443, true},
		{"a name that may lead to an allowed network", policy([]string{"10.0.0.0/8"}, nil, false), "example.com", 443, false},
		{"an address outside that network", policy([]string{"10.0.0.0/8"}, nil, false), "192.0.2.1", 443, true},
	} {
		if err := tt.p.CheckHost(tt.host, tt.port); (err != nil) != tt.denied {
			t.Errorf("%s: %v, want denied %v", tt.name, err, tt.denied)
		}
	}
}
