package participant

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/api/webhooks"
)

func TestASignedCallVerifiesAndKeepsItsIDInEveryAttempt(t *testing.T) {
	srv := serveRaw(t, func(e exchange) bool { e.say(response("503 Service Unavailable", "", "")); return true })
	now := instant
	secrets := []string{"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	keys, err := webhooks.ParseSecrets(strings.Join(secrets, ",\n"))
	if err != nil || len(keys) != 2 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	c := newClient(t, func(cfg *Config) {
		cfg.Now = func() time.Time { return now }
		cfg.SigningKeys = func() [][]byte { return keys }
	})
	call := callTo(srv.url())
	call.Key, call.Body = testID.String()+"/予約/execute", []byte(`{"step":"予約","payload":{"n":1.50}}`)
	for call.Attempt = 1; call.Attempt <= 3; call.Attempt++ {
		c.Call(t.Context(), call)
		now = now.Add(time.Minute)
	}
	wantSeen(t, srv, 3, 1)
	for i, raw := range srv.requests {
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(raw, "\r\n\r\n")
		at := instant.Add(time.Duration(i) * time.Minute)
		for _, secret := range secrets {
			if err := webhooks.VerifyCall([]string{secret}, req.Header, []byte(body), at); err != nil {
				t.Errorf("attempt %d: %v\n%s", i+1, err, raw)
			}
			if err := webhooks.Verify([]string{secret}, req.Header, []byte(body), at); err != nil {
				t.Errorf("attempt %d, as Standard Webhooks: %v\n%s", i+1, err, raw)
			}
		}
		id, stamp := req.Header.Get("Idempotency-Key"), req.Header.Get("X-Saga-Timestamp")
		if id != testID.String()+"/%E4%BA%88%E7%B4%84/execute" || stamp != strconv.FormatInt(at.Unix(), 10) {
			t.Errorf("attempt %d has the id %s and the time %s", i+1, id, stamp)
		}
	}
}
