package app

import (
	"net"
	"testing"

	"github.com/skald-saga/skald/internal/config"
)

func TestTheAddressOfCallbacks(t *testing.T) {
	for _, tt := range []struct {
		name, listens, public, base, cert string
		roles                             []string
		want                              string
	}{
		{"on this machine", "127.0.0.1:8080", "", "", "", nil, "http://127.0.0.1:8080"},
		{"with TLS and a base", "[::1]:8443", "", "/skald", "x.pem", nil, "https://[::1]:8443/skald"},
		{"on every address", "0.0.0.0:8080", "", "", "", nil, ""},
		{"in a network", "10.1.2.3:8080", "", "", "", nil, ""},
		{"as configured", "0.0.0.0:8080", "https://skald.example/skald", "", "", nil, "https://skald.example/skald"},
		{"a node without the API", "127.0.0.1:8080", "", "", "", []string{"engine"}, ""},
		{"and its others", "127.0.0.1:8080", "https://skald.example", "", "", []string{"engine"}, "https://skald.example"},
	} {
		cfg := config.Default(config.Test)
		cfg.Server.PublicURL, cfg.Server.BasePath, cfg.Server.TLSCertFile = tt.public, tt.base, tt.cert
		if tt.roles != nil {
			cfg.Roles = tt.roles
		}
		addr, err := net.ResolveTCPAddr("tcp", tt.listens)
		if err != nil {
			t.Fatal(err)
		}
		if got := callbackBase(&cfg, addr); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
