package app_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/api/webhooks"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
)

const (
	secretOne = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	secretTwo = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

// A participant that knows one secret accepts every call while the other one replaces it.
func TestCallsAreSignedWithTheSecretsOfTheFile(t *testing.T) {
	t.Parallel()
	signatures := make(chan int, 100)
	participant := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := webhooks.VerifyCall([]string{secretOne}, r.Header, body, time.Now()); err != nil {
			t.Error(err)
			w.WriteHeader(http.StatusUnauthorized)
		}
		signatures <- len(strings.Fields(r.Header.Get(webhooks.CallHeaderSignature)))
	}))
	defer participant.Close()
	file := filepath.Join(t.TempDir(), "secrets")
	write := func(secrets string) {
		if err := os.WriteFile(file+".new", []byte(secrets), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write(secretOne + "\n")
	_, n := inMemory(t, func(c *config.Config) { c.Participants.SigningSecretsFile = file })
	run := func() int {
		status, doc := call(t, "POST", n.url+"/api/v1/sagas?wait=4m", `{"steps": [{"name": "a", "compensation": "none",
			"retry": {"max_attempts": 1}, "action": {"http": {"url": "`+participant.URL+`"}}}]}`)
		if doc["state"] != "completed" {
			t.Fatalf("%d %v", status, doc)
		}
		return <-signatures
	}
	if got := run(); got != 1 {
		t.Errorf("%d signatures, want one", got)
	}
	write(secretTwo + "\n" + secretOne + "\n")
	patience.Until(t, "the new secret is used", func() bool { return run() == 2 })
}
