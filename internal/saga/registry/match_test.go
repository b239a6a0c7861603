package registry_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/saga/registry"
)

func TestACallBelongsToTheParticipantOfItsOriginAndPath(t *testing.T) {
	for _, tt := range []struct {
		base, call string
		want       bool
	}{
		{"http://card.example", "http://card.example", true},
		{"http://card.example", "http://card.example/", true},
		{"http://card.example/", "http://card.example/v1/charges?key=1", true},
		{"http://card.example", "HTTP://CARD.example:80/v1", true},
		{"HTTP://CARD.example:80/", "http://card.example", true},
		{"http://card.example", "http://card.example?x=/v1", true},
		{"http://card.example/v1", "http://card.example/v1", true},
		{"http://card.example/v1/", "http://card.example/v1/charges", true},
		{"http://card.example/v1", "http://card.example/v1?x=1", true},
		{"https://card.example:443", "https://card.example/a", true},
		{"http://[::1]:9/a", "http://[::1]:9/a/b", true},
		{"http://[::1]", "http://[::1]:80/a/b", true},

		{"http://card.example/v1", "http://card.example/v10", false},
		{"http://card.example/v1", "http://card.example/V1", false},
		{"http://card.example/v1", "http://card.example/", false},
		{"http://card.example/v1", "http://card.example?x=/v1", false},
		{"http://card.example", "https://card.example", false},
		{"http://card.example", "http://card.example:8080", false},
		{"http://card.example", "http://card.example.evil.example/", false},
		{"http://card.example", "http://wildcard.example/", false},
		{"http://[::1]:9/a", "http://[::2]:9/a/b", false},
	} {
		s, err := registry.Settings{BaseURL: tt.base}.Checked("card")
		if err != nil {
			t.Fatalf("%s: %v", tt.base, err)
		}
		at, ok := registry.PlaceOf(s.BaseURL)
		call, okToo := registry.PlaceOf(tt.call)
		if got := ok && okToo && at.Holds(&call); got != tt.want {
			t.Errorf("%s holds %s: %t", tt.base, tt.call, got)
		}
	}
}

func TestFindingThePlaceOfACallAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { registry.PlaceOf("http://card.example:9001/v1/charges?key=1") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
