package registry_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

func TestTheAddressOfACallByName(t *testing.T) {
	type headers = map[string]string
	for _, tt := range []struct {
		base, path, url string
		given, own      headers
		want            headers
	}{
		{"http://card.example", "/", "http://card.example/", nil, nil, nil},
		{"HTTP://Card.example:80/", "/v1/charges?key=1", "http://card.example/v1/charges?key=1", nil, headers{"A": "1"}, headers{"A": "1"}},
		{"https://card.example/v1", "/charges", "https://card.example/v1/charges", headers{"A": "1"}, nil, headers{"A": "1"}},
		{"https://card.example/v1//", "/", "https://card.example/v1/", headers{"A": "1"}, headers{"B": "2"}, headers{"A": "1", "B": "2"}},
		{"http://[::1]:9/a%2Fb", "/c%20d", "http://[::1]:9/a%2Fb/c%20d", headers{"X-Shop": "1", "B": "2"}, headers{"x-shop": "3"}, headers{"x-shop": "3", "B": "2"}},
	} {
		s, err := registry.Settings{BaseURL: tt.base, Headers: tt.given}.Checked("card")
		if err != nil {
			t.Fatal(err)
		}
		of := workflow.HTTPCall{Method: "PUT", Participant: "card", Path: tt.path, Headers: tt.own}
		before := of
		c := saga.Call{By: workflow.Call{HTTP: &of}, Timeout: time.Second}
		s.Address(&c)
		want := workflow.HTTPCall{Method: "PUT", Participant: "card", Path: tt.path, URL: tt.url, Headers: tt.want}
		if diff := cmp.Diff(want, *c.By.HTTP); diff != "" || c.Timeout != time.Second {
			t.Errorf("%s and %s, within %s (-want +got):\n%s", tt.base, tt.path, c.Timeout, diff)
		}
		if diff := cmp.Diff(before, of); diff != "" {
			t.Errorf("the definition was changed:\n%s", diff)
		}
		at, _ := registry.PlaceOf(s.BaseURL)
		if call, ok := registry.PlaceOf(c.By.HTTP.URL); !ok || !at.Holds(&call) {
			t.Errorf("%s does not pass the gate of %s", c.By.HTTP.URL, s.BaseURL)
		}
	}
}

// The timeout of a participant is for steps that have none.
func TestTheTimeoutOfACallByName(t *testing.T) {
	for _, tt := range []struct {
		ms   int64
		own  bool
		want time.Duration
	}{{0, false, time.Minute}, {700, false, 700 * time.Millisecond}, {700, true, time.Minute}} {
		c := saga.Call{By: workflow.Call{HTTP: &workflow.HTTPCall{Path: "/"}}, Timeout: time.Minute, OwnTimeout: tt.own}
		s := registry.Settings{BaseURL: "http://h", TimeoutMS: tt.ms}
		if s.Address(&c); c.Timeout != tt.want {
			t.Errorf("%+v: %s", tt, c.Timeout)
		}
	}
}

// Headers are sent as they stand, so what looks like a secret that is named is refused.
func TestAHeaderOfAParticipantNamesNoSecret(t *testing.T) {
	for value, good := range map[string]bool{
		"secrets.card": false, "Bearer secrets.card": false, "${secrets.card}": false, "${payload.a}": false,
		"$${a}": false, "no secret": true, "secret": true, "$5": true,
	} {
		_, err := registry.Settings{BaseURL: "http://h", Headers: map[string]string{"A": value}}.Checked("card")
		if (err == nil) != good {
			t.Errorf("%s: %v", value, err)
		}
	}
}
