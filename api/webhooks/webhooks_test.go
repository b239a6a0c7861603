package webhooks_test

import (
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/api/webhooks"
)

// The published vectors. docs/webhooks.md contains the same ones, which a test below checks. The
// first vector is that of the Standard Webhooks reference libraries.
var vectors = []struct{ name, secret, id, timestamp, body, signature string }{
	{"Standard Webhooks' own", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330",
		`{"test": 2432232314}`, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
	{
		"text that is not ASCII",
		"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
		"019ab2c0-5a3e-7c31-9d5e-2f1b7a4c8d90",
		"1795262400",
		`{"subject":"å"}`,
		"v1,tXCqBeP+rHOvGN0ppM3YTLcom4MhG/WxReKMj6SqXa4=",
	},
}

func headers(id, timestamp, signature string) http.Header {
	h := http.Header{}
	h.Set(webhooks.HeaderID, id)
	h.Set(webhooks.HeaderTimestamp, timestamp)
	h.Set(webhooks.HeaderSignature, signature)
	return h
}

func at(t *testing.T, timestamp string) time.Time {
	t.Helper()
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(seconds, 0)
}

func TestThePublishedVectorsHold(t *testing.T) {
	page, err := os.ReadFile("../../docs/webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		key, err := webhooks.ParseSecret(v.secret)
		if err != nil {
			t.Fatal(err)
		}
		if got := webhooks.Sign(key, v.id, at(t, v.timestamp), []byte(v.body)); got != v.signature {
			t.Errorf("%s: signature %s, want %s", v.name, got, v.signature)
		}
		if err := webhooks.Verify([]string{v.secret}, headers(v.id, v.timestamp, v.signature), []byte(v.body),
			at(t, v.timestamp)); err != nil {
			t.Errorf("%s: %v", v.name, err)
		}
		for _, part := range []string{v.secret, v.id, v.timestamp, v.body, v.signature} {
			if !strings.Contains(string(page), part) {
				t.Errorf("%s: docs/webhooks.md lacks %s", v.name, part)
			}
		}
	}
}

func TestWhatWasChangedIsRefused(t *testing.T) {
	v := vectors[0]
	now := at(t, v.timestamp)
	key, err := webhooks.ParseSecret(v.secret)
	if err != nil {
		t.Fatal(err)
	}
	other := webhooks.FormatSecret([]byte("another key of thirty-two bytes."))
	without := headers(v.id, v.timestamp, v.signature)
	without.Del(webhooks.HeaderSignature)
	for _, tt := range []struct {
		name    string
		secrets []string
		header  http.Header
		body    string
		now     time.Time
		want    error
	}{
		{"another body", []string{v.secret}, headers(v.id, v.timestamp, v.signature), v.body + " ", now, webhooks.ErrSignature},
		{"another id", []string{v.secret}, headers(v.id+"x", v.timestamp, v.signature), v.body, now, webhooks.ErrSignature},
		{"another time", []string{v.secret}, headers(v.id, "1614265331", v.signature), v.body, now, webhooks.ErrSignature},
		{"another secret", []string{other}, headers(v.id, v.timestamp, v.signature), v.body, now, webhooks.ErrSignature},
		{"another scheme", []string{v.secret}, headers(v.id, v.timestamp, strings.Replace(v.signature, "v1,", "v2,", 1)), v.body, now, webhooks.ErrSignature},
		{"no secrets", nil, headers(v.id, v.timestamp, v.signature), v.body, now, webhooks.ErrSignature},
		{"a moved dot", []string{v.secret}, headers(v.id+".1614265330", v.timestamp, v.signature), v.body, now, webhooks.ErrSignature},
		{"no signature", []string{v.secret}, without, v.body, now, webhooks.ErrHeaders},
		{"no id", []string{v.secret}, headers("", v.timestamp, v.signature), v.body, now, webhooks.ErrHeaders},
		{"a time that is not a number", []string{v.secret}, headers(v.id, "now", v.signature), v.body, now, webhooks.ErrHeaders},
		{"an old one sent again", []string{v.secret}, headers(v.id, v.timestamp, v.signature), v.body, now.Add(webhooks.Tolerance + time.Second), webhooks.ErrTimestamp},
		{"one from the future", []string{v.secret}, headers(v.id, v.timestamp, v.signature), v.body, now.Add(-webhooks.Tolerance - time.Second), webhooks.ErrTimestamp},
		{"a secret without its prefix", []string{strings.TrimPrefix(v.secret, "whsec_")}, headers(v.id, v.timestamp, v.signature), v.body, now, webhooks.ErrSecret},
		{"a secret that is too short", []string{"whsec_c2hvcnQ="}, headers(v.id, v.timestamp, v.signature), v.body, now, webhooks.ErrSecret},
		{"the same, at the edge of the tolerance", []string{v.secret}, headers(v.id, v.timestamp, v.signature), v.body, now.Add(webhooks.Tolerance), nil},
		{"two secrets and two signatures", []string{other, v.secret}, headers(v.id, v.timestamp, "v1,AAAA "+webhooks.Sign(key, v.id, now, []byte(v.body))), v.body, now, nil},
	} {
		if err := webhooks.Verify(tt.secrets, tt.header, []byte(tt.body), tt.now); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// The published vectors of calls to participants, from docs/participants.md.
var calls = []struct{ secret, id, timestamp, body, signature string }{
	{
		"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
		"019ab2c0-5a3e-7c31-9d5e-2f1b7a4c8d90/charge-payment/execute",
		"1795262400", `{"step":"charge-payment"}`, "v1,cD6OGeaU939frqa84apOtiMU7r1ds+xZb81X87ASX8g=",
	},
	{
		"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		"019ab2c0-5a3e-7c31-9d5e-2f1b7a4c8d90/%E4%BA%88%E7%B4%84/compensate",
		"1795262401", `{"step":"予約"}`, "v1,Q7k6F6bRiAyiGhMN6SxAxEYSMGfAfZl1wldauP/i+2Q=",
	},
}

func TestThePublishedVectorsOfCallsHold(t *testing.T) {
	page, err := os.ReadFile("../../docs/participants.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range calls {
		secrets := []string{v.secret}
		header := func(id, timestamp, signature string) http.Header {
			return http.Header{"Idempotency-Key": {id}, "X-Saga-Timestamp": {timestamp}, "X-Saga-Signature": {signature}}
		}
		verify := func(h http.Header, body string, after time.Duration) error {
			return webhooks.VerifyCall(secrets, h, []byte(body), at(t, v.timestamp).Add(after))
		}
		right := header(v.id, v.timestamp, v.signature)
		for _, tt := range []struct {
			name  string
			err   error
			wants error
		}{
			{"as it was signed", verify(right, v.body, 0), nil},
			{"during a rotation", verify(header(v.id, v.timestamp, "v1,AAAA "+v.signature), v.body, 0), nil},
			{"another byte", verify(right, v.body[:len(v.body)-1]+" ", 0), webhooks.ErrSignature},
			{"another time", verify(header(v.id, "1795262402", v.signature), v.body, 0), webhooks.ErrSignature},
			{"another id", verify(header(v.id+"#2", v.timestamp, v.signature), v.body, 0), webhooks.ErrSignature},
			{"an old one sent again", verify(right, v.body, webhooks.Tolerance+time.Second), webhooks.ErrTimestamp},
			{"a webhook", verify(headers(v.id, v.timestamp, v.signature), v.body, 0), webhooks.ErrHeaders},
		} {
			if !errors.Is(tt.err, tt.wants) {
				t.Errorf("%s, %s: %v, want %v", v.id, tt.name, tt.err, tt.wants)
			}
		}
		for _, part := range []string{v.secret, v.id, v.timestamp, v.body, v.signature} {
			if !strings.Contains(string(page), part) {
				t.Errorf("docs/participants.md lacks %s", part)
			}
		}
	}
}
