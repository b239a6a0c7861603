package postgres

import (
	"testing"

	"github.com/skald-saga/skald/internal/secret/credentials"
)

func TestTheListenerSignsInAsTheOthersDo(t *testing.T) {
	for _, tt := range []struct {
		dsn   string
		login credentials.Login
		want  string
	}{
		{"postgres://a:b@h/d?sslmode=disable", credentials.Login{}, "postgres://a:b@h/d?sslmode=disable"},
		{"postgres://a:b@h/d?sslmode=disable", credentials.Login{User: "x", Password: "p@ss"}, "postgres://x:p%40ss@h/d?sslmode=disable"},
		{"postgres://a:b@h/d", credentials.Login{Password: "new"}, "postgres://a:new@h/d"},
		{"host=h dbname=d", credentials.Login{Password: `it's`}, `host=h dbname=d password='it\'s'`},
	} {
		if got := signedIn(tt.dsn, tt.login); got != tt.want {
			t.Errorf("signedIn(%q, %v) = %q, want %q", tt.dsn, tt.login, got, tt.want)
		}
	}
}
