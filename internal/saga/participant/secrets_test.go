package participant

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/webhooks"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/expression"
	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/saga/secrets"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/secret/keeper"
)

// fixed maps the names of secrets to their values, none of which is "".
type fixed []string

func (f fixed) Value(i int) (string, error) {
	if f[i] == "" {
		return "", errors.New("is empty")
	}
	return f[i], nil
}
func (f fixed) Seen(i int) []string         { return []string{f[i]} }
func (fixed) Version() int64                { return 1 }
func (fixed) State(int) keeper.State        { return keeper.State{} }
func (fixed) Refresh(context.Context) error { return nil }

// directory contains one participant.
type directory struct{ *registry.Participant }

func (d directory) Named(uuid.UUID, string) *registry.Participant { return d.Participant }
func (d directory) Of(_ uuid.UUID, url string) *registry.Participant {
	if strings.HasPrefix(url, d.Settings.BaseURL+"/") {
		return d.Participant
	}
	return nil
}
func (directory) Refresh(context.Context) error { return nil }

const (
	hardValue = `pa"ss\wörd+/&1`
	mark      = "«secret:key»"
)

// secretCall is a call with a secret in a header and in its body, twice.
func secretCall(url string) saga.Call {
	c := callTo(url)
	c.By.HTTP.Headers = map[string]string{"X-Key": "k " + mark, "X-Text": mark}
	c.Body = []byte(`{"a":"` + mark + `","b":"` + mark + ` and ` + mark + `"}`)
	c.By.HTTP.Secrets = map[string][]expression.Secret{
		"X-Key":            {{Name: "key", At: 2, Len: len(mark)}},
		workflow.BodyPlace: {{Name: "key", At: 6, Len: len(mark)}, {Name: "key", At: 6 + 2*len(mark) + len(`","b":" and `), Len: len(mark)}},
	}
	return c
}

func withSecrets(t *testing.T, base string, values ...string) *Client {
	t.Helper()
	known := directory{&registry.Participant{Name: "card", Settings: registry.Settings{BaseURL: base}}}
	names := []string{"key", "other"}[:len(values)]
	keys, err := webhooks.ParseSecrets("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, func(c *Config) {
		c.Secrets = secrets.New(known, fixed(values), true,
			[]registry.Binding{{Participant: "card", BaseURL: base, Secrets: names}})
		c.SigningKeys = func() [][]byte { return keys }
		c.Now = func() time.Time { return instant }
	})
}

// The participant receives the secrets, and text that only looks like a placeholder stays
// unchanged. The record contains neither secret.
func TestTheParticipantAloneGetsTheSecrets(t *testing.T) {
	srv := serveRaw(t, func(e exchange) bool { e.say(response("200 OK", "", `{"ok":true}`)); return true })
	c := withSecrets(t, srv.url(), hardValue)
	call := secretCall(srv.url() + "/charges")
	before := string(call.Body)
	o := c.Call(t.Context(), call)
	if o.Verdict != saga.Done || string(o.Request) != before || string(call.Body) != before ||
		call.By.HTTP.Headers["X-Key"] != "k "+mark {
		t.Fatalf("%+v\n%s\n%s", o, o.Request, call.Body)
	}
	wantSeen(t, srv, 1, 1)
	raw := srv.requests[0]
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(raw, "\r\n\r\n")
	const inJSON = `pa\"ss\\wörd+/&1`
	if want := `{"a":"` + inJSON + `","b":"` + mark + ` and ` + inJSON + `"}`; body != want {
		t.Errorf("the body was %s, want %s", body, want)
	}
	if req.Header.Get("X-Key") != "k "+hardValue || req.Header.Get("X-Text") != mark {
		t.Errorf("headers %v", req.Header)
	}
	if err := webhooks.VerifyCall([]string{"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}, req.Header, []byte(body), instant); err != nil {
		t.Errorf("the signature is not of what was sent: %v", err)
	}
	call.ContentType, call.Body = workflow.ContentForm, []byte("k="+mark)
	call.By.HTTP.Secrets = map[string][]expression.Secret{workflow.BodyPlace: {{Name: "key", At: 2, Len: len(mark)}}}
	c.Call(t.Context(), call)
	if raw := srv.requests[1]; !strings.HasSuffix(raw, "\r\n\r\nk=pa%22ss%5Cw%C3%B6rd%2B%2F%261") {
		t.Errorf("the form was sent as %q", raw)
	}
}

// If a secret is missing, nothing is sent. The attempt was certainly not applied, is retried, and
// says nothing about the participant.
func TestACallWithoutItsSecretIsNotSent(t *testing.T) {
	srv := serveRaw(t, func(e exchange) bool { e.say(response("200 OK", "", `{}`)); return true })
	elsewhere := callTo(srv.url())
	elsewhere.By.HTTP.Secrets = map[string][]expression.Secret{"X": {{Name: "key"}}}
	for name, tt := range map[string]struct {
		client *Client
		call   saga.Call
		why    string
	}{
		"a secret that cannot be read":   {withSecrets(t, srv.url(), ""), secretCall(srv.url() + "/a"), `secret "key" of participant "card" is empty`},
		"a URL of no participant":        {withSecrets(t, "http://h", "12345678"), secretCall(srv.url() + "/a"), "only registered participants"},
		"a node without secrets":         {newClient(t, nil), secretCall(srv.url() + "/a"), "no secret is bound"},
		"a participant without this one": {withSecrets(t, srv.url()), secretCall(srv.url() + "/a"), "not bound to participant"},
		"a base URL outside the binding": {func() *Client {
			c := withSecrets(t, srv.url(), "12345678")
			known := directory{&registry.Participant{Name: "card", Settings: registry.Settings{BaseURL: srv.url()}}}
			c.cfg.Secrets = secrets.New(known, fixed{"12345678"}, true,
				[]registry.Binding{{Participant: "card", BaseURL: srv.url() + "/v1", Secrets: []string{"key"}}})
			return c
		}(), secretCall(srv.url() + "/a"), "/v1 and below"},
	} {
		o := tt.client.Call(t.Context(), tt.call)
		if o.Verdict != saga.NotApplied || o.Class != retry.Unavailable || o.Code != CodeSecretUnavailable ||
			o.InDoubt || o.Last || !strings.Contains(o.Message, tt.why) || registry.Counts(&o) {
			t.Errorf("%s: %+v", name, o)
		}
	}
	wantSeen(t, srv, 0, 0)
}

// A participant that echoes its secrets, from this call or another, cannot bring them into the
// outcome.
func TestAnswersLoseTheSecrets(t *testing.T) {
	for name, tt := range map[string]struct{ status, body string }{
		"a success":             {"200 OK", `{"got":"k 12345678","n":12345678,"inner":"{\"k\":\"\u0031\u0032345678\"}"}`},
		"a refusal":             {"409 Conflict", `{"message":"12345678 is bad","code":"x","cause":{"message":"no 12345678"},"stack_trace":"12345678\n1"}`},
		"an error in text":      {"500 Internal Server Error", `you sent 12345678`},
		"a refusal that is cut": {"422 Unprocessable Entity", `{"message":"\u0031\u0032345678","pad":"` + strings.Repeat("x", 2<<20) + `"}`},
		"text that is mended":   {"400 Bad Request", "{\"message\":\"12345678 \xff\"}"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := serveRaw(t, func(e exchange) bool { e.say(response(tt.status, "", tt.body)); return true })
			c, hidden := withSecrets(t, srv.url(), "12345678"), 0
			c.cfg.Hidden = func(*saga.Call) { hidden++ }
			o := c.Call(t.Context(), callTo(srv.url()+"/a")) // the call has no secrets
			all := strings.Join([]string{string(o.Output), string(o.Response), o.Message, o.StackTrace}, "\n")
			if o.Cause != nil {
				all += o.Cause.Message
			}
			if strings.Contains(all, "2345678") || name != "an error in text" && !strings.Contains(all, mark) || hidden != 1 {
				t.Errorf("%d hidden; %s", hidden, all)
			}
		})
	}
}
