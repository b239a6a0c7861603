package measure

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestParticipant(t *testing.T) {
	for _, tt := range []struct {
		name, path, wantBody string
		wantStatus           int
	}{
		{"a step succeeds with a JSON output", "/stock/reserve", `{"ok":true}`, 200},
		{"a step whose path ends in /refuse is refused", "/shipment/refuse", `{"error":"refused by the benchmark"}`, 409},
		{"a path that only holds refuse succeeds", "/refuse/not", `{"ok":true}`, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answer := httptest.NewRecorder()
			body := strings.NewReader(`{"payload":{}}`)
			Participant.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, tt.path, body))
			if answer.Code != tt.wantStatus || answer.Body.String() != tt.wantBody {
				t.Errorf("answer = %d %s; want %d %s", answer.Code, answer.Body, tt.wantStatus, tt.wantBody)
			}
			if got := answer.Header().Get("Content-Type"); got != "application/json" {
				t.Errorf("Content-Type = %q; want application/json", got)
			}
			if body.Len() != 0 {
				t.Errorf("%d bytes of the request were left unread", body.Len())
			}
		})
	}
}

func TestServeParticipantAnnouncesItsAddressAndStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- ServeParticipant(ctx, "127.0.0.1:0", false, in) }()

	line := make([]byte, 64)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Post(
		"http://"+strings.TrimSpace(string(line[:n]))+"/x",
		"application/json",
		strings.NewReader("{}"),
	)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 200 {
		t.Errorf("status = %d; want 200", response.StatusCode)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ServeParticipant = %v after its context ended; want nil", err)
	}
}
