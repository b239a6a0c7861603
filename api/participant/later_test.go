package participant_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/skald-saga/skald/api/participant"
)

// skald answers reports in turn with the statuses a test wants; the last one repeats.
type skald struct {
	*httptest.Server
	answers []func(http.ResponseWriter)
	bodies  []string // reports received, one at a time
}

func status(code int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "0")
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(code)
	}
}

func lost(http.ResponseWriter) { panic(http.ErrAbortHandler) }

func newSkald(t *testing.T, answers ...func(http.ResponseWriter)) *skald {
	s := &skald{answers: answers}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.bodies = append(s.bodies, string(body))
		s.answers[min(len(s.bodies), len(s.answers))-1](w)
	}))
	t.Cleanup(s.Close)
	return s
}

// promised is an in-memory participant that has answered a call with Later.
func promised(t *testing.T, callback string) (h *participant.Handler, key string) {
	t.Helper()
	h, err := participant.New(participant.Config{Store: participant.Memory(), Execute: func(
		context.Context, *sql.Tx, *participant.Call,
	) (any, error) {
		return participant.Later, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if w := call(t, h, "execute", callback); w.Code != http.StatusAccepted || w.Body.String() != `{"later":true}` {
		t.Fatalf("%d %s; want 202", w.Code, w.Body)
	}
	return h, "a/x/execute"
}

func call(t *testing.T, h http.Handler, action, callback string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(`{}`))
	for name, value := range map[string]string{
		"Idempotency-Key": "a/x/" + action, "X-Saga-Id": "a", "X-Saga-Step": "x", "X-Saga-Action": action,
		"X-Saga-Callback": callback,
	} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestReportsAreRepeatedWhileThatIsOfUse(t *testing.T) {
	for name, try := range map[string]struct {
		answers []func(http.ResponseWriter)
		sent    int
		fails   bool
	}{
		"accepted":              {[]func(http.ResponseWriter){status(200)}, 1, false},
		"too late":              {[]func(http.ResponseWriter){status(409)}, 1, false},
		"not ours":              {[]func(http.ResponseWriter){status(404)}, 1, true},
		"not understood":        {[]func(http.ResponseWriter){status(422)}, 1, true},
		"too large":             {[]func(http.ResponseWriter){status(413)}, 1, true},
		"elsewhere":             {[]func(http.ResponseWriter){status(307), status(200)}, 1, true},
		"not yet, then":         {[]func(http.ResponseWriter){status(425), status(429), status(200)}, 3, false},
		"not there, then":       {[]func(http.ResponseWriter){status(503), status(502), status(409)}, 3, false},
		"lost, then":            {[]func(http.ResponseWriter){lost, status(200)}, 2, false},
		"never, but not always": {[]func(http.ResponseWriter){status(503)}, 20, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSkald(t, try.answers...)
			h, key := promised(t, s.URL)
			report, err := h.Finish(t.Context(), nil, key, map[string]int{"charged": 5}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := report.Send(t.Context()); (err != nil) != try.fails {
				t.Errorf("%v; want an error: %t", err, try.fails)
			} else if err != nil && strings.Contains(err.Error(), s.URL) {
				t.Errorf("the error tells the callback: %v", err)
			}
			if len(s.bodies) != try.sent {
				t.Fatalf("%d reports sent; want %d", len(s.bodies), try.sent)
			}
			for _, body := range s.bodies {
				if body != `{"output":{"charged":5},"result":"done"}` {
					t.Errorf("sent %s", body)
				}
			}
		})
	}
}

func TestAReportEndsWithItsContext(t *testing.T) {
	s := newSkald(t, func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) })
	h, key := promised(t, s.URL)
	report, err := h.Finish(t.Context(), nil, key, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := report.Send(gone); !errors.Is(err, context.Canceled) || len(s.bodies) > 0 {
		t.Errorf("%v, %d reports", err, len(s.bodies))
	}
}

func TestHeartbeats(t *testing.T) {
	s := newSkald(t, status(200), status(200), status(200), status(409), status(503))
	h, key := promised(t, s.URL)
	for n, try := range []struct {
		progress participant.Progress
		body     string
		fails    bool
	}{
		{participant.Progress{}, `{"result":"heartbeat"}`, false},
		{participant.Progress{Percent: 140, Message: "packed"},
			`{"progress":{"message":"packed","percent":100},"result":"heartbeat"}`, false},
		{participant.Progress{Message: "sent"}, `{"progress":{"message":"sent"},"result":"heartbeat"}`, false},
		{participant.Progress{}, `{"result":"heartbeat"}`, true},
		{participant.Progress{}, `{"result":"heartbeat"}`, true},
	} {
		if err := h.Heartbeat(t.Context(), key, try.progress); (err != nil) != try.fails {
			t.Errorf("heartbeat %d: %v", n+1, err)
		}
		if len(s.bodies) != n+1 || s.bodies[n] != try.body {
			t.Errorf("heartbeat %d: sent %q", n+1, s.bodies)
		}
	}
	if err := h.Heartbeat(t.Context(), "a/y/execute", participant.Progress{}); !errors.Is(err, participant.ErrNotPending) {
		t.Errorf("of another step: %v", err)
	}
	call(t, h, "compensate", "")
	if err := h.Heartbeat(t.Context(), key, participant.Progress{}); !errors.Is(err, participant.ErrCompensated) {
		t.Errorf("after the compensation: %v", err)
	}
	if len(s.bodies) != 5 {
		t.Errorf("%d heartbeats", len(s.bodies))
	}
}

// An output that cannot be an answer changes nothing, so that the work can be finished another way.
func TestAFinishThatIsAMistake(t *testing.T) {
	h, key := promised(t, "https://skald.example/1")
	for name, output := range map[string]any{"later again": participant.Later, "no JSON": func() {}} {
		if _, err := h.Finish(t.Context(), nil, key, output, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := h.Finish(t.Context(), nil, key, json.RawMessage(`[1]`), nil); err != nil {
		t.Error(err)
	}
	if w := call(t, h, "execute", ""); w.Code != http.StatusOK || w.Body.String() != `[1]` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Only http and https URLs are called.
func TestACallbackThatIsNoAddress(t *testing.T) {
	h, err := participant.New(participant.Config{Store: participant.Memory(), Execute: func(
		context.Context, *sql.Tx, *participant.Call,
	) (any, error) {
		return participant.Later, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, callback := range []string{"", "file:///etc/passwd", "/relative", "http://", "https://%"} {
		if w := call(t, h, "execute", callback); w.Code != http.StatusInternalServerError {
			t.Errorf("%q: %d", callback, w.Code)
		}
	}
}

// foreign are callbacks that are not at https://skald.example, though some look as if they were.
var foreign = []string{
	"https://other.example/one", "http://skald.example/one", "https://skald.example:8443/one", "https://skald.example",
	"https://skald.example@other.example/one", "https://skald.example.other.example/one", "https://skald.example\\@other/one",
	"//skald.example/one", "https://other.example/https://skald.example/", "https://skald.example?/@other.example/",
}

// A call with a callback elsewhere has no effect and is not remembered.
func TestCallbacksAtAnotherOrigin(t *testing.T) {
	done := 0
	h, err := participant.New(participant.Config{
		Store: participant.Memory(), CallbackOrigins: []string{"http://127.0.0.1:8080", "https://skald.example"},
		Execute: func(context.Context, *sql.Tx, *participant.Call) (any, error) { done++; return participant.Later, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, callback := range foreign {
		for _, action := range []string{"compensate", "execute"} {
			w := call(t, h, action, callback)
			if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "CALLBACK_ORIGIN") || done != 0 {
				t.Errorf("%s of %s: %d %s", action, callback, w.Code, w.Body)
			}
		}
	}
	if w := call(t, h, "execute", "https://skald.example/one"); w.Code != http.StatusAccepted || done != 1 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := call(t, h, "execute", "http://127.0.0.1:8080/two"); w.Code != http.StatusAccepted || done != 1 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := call(t, h, "compensate", ""); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, origin := range []string{
		"skald.example", "https://skald.example/", "https://", "ftp://skald.example", "https://a@skald.example", "",
	} {
		wrong := participant.Config{Store: participant.Memory(), Execute: nothing, CallbackOrigins: []string{origin}}
		if _, err := participant.New(wrong); err == nil {
			t.Errorf("%s is an origin", origin)
		}
	}
	for name, wrong := range map[string]participant.Config{
		"CallbackOrigins": {CallbackOrigins: []string{}}, "Secrets": {Secrets: []string{}},
	} {
		wrong.Store, wrong.Execute = participant.Memory(), nothing
		if _, err := participant.New(wrong); err == nil {
			t.Errorf("%s may be empty", name)
		}
	}
}
