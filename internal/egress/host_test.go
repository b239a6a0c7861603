package egress

import "testing"

func TestWhatCanBeSaidOfAHostWithoutLookingItUp(t *testing.T) {
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
