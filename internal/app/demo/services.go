package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/loop"
)

// services are the participants of a demo that is kept running. They have no ledger, and respond as
// configured.
type services struct {
	url  string
	mu   sync.Mutex
	as   map[string]string // how an operation such as "stock/release" responds; default: ok
	seen map[string]int    // calls by path and Idempotency-Key, for operations that succeed at the third attempt
	stop chan struct{}
}

// manners are the ways in which an operation can respond.
var manners = map[string]string{
	"ok": "200", "refuse": "409 out_of_stock", "down": "503", "flaky": "503 twice, then 200",
	"slow": "200 after a minute",
}

// openServices serves the participants on a free loopback port.
func openServices(log *slog.Logger) (s *services, closeIt func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	s = &services{
		url: "http://" + l.Addr().String(), as: map[string]string{}, seen: map[string]int{},
		stop: make(chan struct{}),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /manners/{service}/{operation}", s.teach)
	mux.HandleFunc("POST /{service}/{operation}", s.answer)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(l); err != http.ErrServerClosed {
			log.Error("the participants of the demo ended", slog.Any("error", err))
		}
	}()
	return s, sync.OnceFunc(func() { close(s.stop); server.Close() }), nil
}

// behave sets how an operation responds from now on.
func (s *services) behave(operation, manner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.as[operation] = manner
}

// teach is the HTTP handler of behave: curl -X PUT -d down .../manners/stock/release.
func (s *services) teach(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 100))
	manner := strings.TrimSpace(string(text))
	if err != nil || manners[manner] == "" {
		http.Error(w, fmt.Sprintf("the body must be one of ok, refuse, down, flaky and slow, not %q", manner), 400)
		return
	}
	operation := r.PathValue("service") + "/" + r.PathValue("operation")
	s.behave(operation, manner)
	fmt.Fprintf(w, "%s now answers %s\n", operation, manners[manner])
}

func (s *services) answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // nothing in it changes the answer
	operation := r.PathValue("service") + "/" + r.PathValue("operation")
	s.mu.Lock()
	manner, call := s.as[operation], operation+" "+r.Header.Get("Idempotency-Key")
	s.seen[call]++
	first := s.seen[call] < 3
	s.mu.Unlock()
	pause := 40 * time.Millisecond
	status, body := http.StatusOK, map[string]any{"operation": operation, "reference": 9007199254740993}
	switch {
	case manner == "refuse":
		status, body = http.StatusConflict, map[string]any{"error": "out_of_stock", "sku": "lamp", "left": 0}
	case manner == "down", manner == "flaky" && first:
		status, body = http.StatusServiceUnavailable, map[string]any{"error": operation + " is in maintenance"}
	case manner == "slow":
		pause = time.Minute
	}
	if loop.Await(r.Context(), pause, s.stop) {
		panic(http.ErrAbortHandler) // without a response
	}
	if r.Context().Err() != nil {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller has disconnected, or has the response
}
