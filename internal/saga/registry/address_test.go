package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/expression"
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

// The timeout of a participant applies to steps that have none.
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

func TestWhatAHeaderOfAParticipantCanHave(t *testing.T) {
	for value, good := range map[string]bool{
		"secrets.card": false, "Bearer secrets.card": false, "${secrets.card}": true, "Bearer ${secrets.card}": true,
		"${payload.a}": false, "${secrets.a + 'b'}": false, "${'a'}": false, "${1}": false, "${secrets}": false,
		"${secrets.a.b}": false, "${secrets.a": false, "${secrets.a}\r\nX: y": false, "no secret": true, "secret": true,
		"$5": true, "$${a}": true,
	} {
		_, err := registry.Settings{BaseURL: "http://h", Headers: map[string]string{"A": value}}.Checked("card")
		if (err == nil) != good {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// The headers of a participant contain placeholders until the call is sent. Headers of the step,
// including their secrets, take precedence.
func TestSecretsInTheHeadersOfACallByName(t *testing.T) {
	s, err := registry.Settings{BaseURL: "http://h", Headers: map[string]string{
		"Authorization": "Bearer ${secrets.token}", "X-Key": "${secrets.key}", "X-Text": "«secret:token»",
		"X-Dollar": "$${a}",
	}}.Checked("card")
	if err != nil {
		t.Fatal(err)
	}
	own := []expression.Secret{{Name: "other", At: 2, Len: len("«secret:other»")}}
	c := saga.Call{By: workflow.Call{HTTP: &workflow.HTTPCall{
		Path: "/", Headers: map[string]string{"authorization": "A «secret:other»"},
		Secrets: map[string][]expression.Secret{"authorization": own, workflow.BodyPlace: own},
	}}}
	s.Address(&c)
	want := workflow.HTTPCall{
		Path: "/", URL: "http://h/",
		Headers: map[string]string{
			"authorization": "A «secret:other»", "X-Key": "«secret:key»", "X-Text": "«secret:token»", "X-Dollar": "${a}",
		},
		Secrets: map[string][]expression.Secret{
			"authorization": own, workflow.BodyPlace: own, "X-Key": {{Name: "key", Len: len("«secret:key»")}},
		},
	}
	if diff := cmp.Diff(want, *c.By.HTTP); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := registry.SecretsIn("${secrets.a} ${secrets.b} ${secrets.a}"); !cmp.Equal(got, []string{"a", "b"}) {
		t.Errorf("secrets in a header: %q", got)
	}
}

func TestWhereABoundSecretGoes(t *testing.T) {
	b := &registry.Binding{Participant: "card", BaseURL: "https://card.example/v1", Secrets: []string{"key", "token"}}
	for _, tt := range []struct {
		of          *registry.Binding
		secret, url string
		want        string // part of the refusal; "" if the secret may be sent
	}{
		{b, "key", "https://card.example/v1", ""}, {b, "token", "https://card.example/v1/charges?a=b", ""},
		{b, "key", "https://CARD.example:443/v1/x", ""}, {b, "key", "", ""},
		{b, "other", "https://card.example/v1", "(bound: key, token): use one of these"},
		{b, "key", "https://card.example/v10", "are only for https://card.example/v1 and below"},
		{b, "key", "https://card.example/", "and below"}, {b, "key", "http://card.example/v1", "and below"},
		{b, "key", "https://card.example.evil.example/v1", "and below"}, {b, "key", "https://evil.example/v1", "and below"},
		{b, "key", "https://card.example/v1/../x", "and below"}, {b, "key", "https://card.example/v1/%2E./x", "and below"},
		{b, "key", "https://card.example/v1/..", "and below"}, {b, "key", "https://card.example/v1/..x/a.b", ""},
		{b, "key", "https://card.example:444/v1", "and below"}, {nil, "key", "https://card.example/v1", "no secret is bound"},
	} {
		why := tt.of.Refusal("card", tt.secret, tt.url)
		if tt.want == "" && why != "" || tt.want != "" && !strings.Contains(why, tt.want) {
			t.Errorf("%s to %s: %q, want %q", tt.secret, tt.url, why, tt.want)
		}
	}
}
