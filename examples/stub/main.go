// Command stub stands for the services that the examples of the manual call. It answers every POST
// with 200 and {"ok":true}, until it is configured otherwise:
//
//	go run ./examples/stub
//	curl -X PUT 127.0.0.1:9001/release -d 503   # /release answers 503 from now on
//	curl 127.0.0.1:9001/release                 # how many calls came, and the last of them
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9001", "address to serve on")
	flag.Parse()
	server := &http.Server{Addr: *listen, Handler: &stub{paths: map[string]*path{}}, ReadHeaderTimeout: 10 * time.Second}
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, "stub:", err)
		os.Exit(1)
	}
}

// path is the recorded state of one path.
type path struct {
	Answer  int               `json:"answer"`
	Taken   int               `json:"taken"`
	Refused int               `json:"refused"`
	Headers map[string]string `json:"headers,omitempty"` // of the last call
	Body    json.RawMessage   `json:"body,omitempty"`
}

type stub struct {
	mu    sync.Mutex
	paths map[string]*path
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.paths[r.URL.Path]
	if p == nil {
		p = &path{Answer: http.StatusOK}
		s.paths[r.URL.Path] = p
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.Method {
	case http.MethodGet:
		_ = json.NewEncoder(w).Encode(p)
	case http.MethodPut:
		status, err := strconv.Atoi(strings.TrimSpace(string(body)))
		if err != nil || status < 200 || status > 599 {
			http.Error(w, "the body must be a status from 200 to 599", http.StatusBadRequest)
			return
		}
		p.Answer = status
		w.WriteHeader(http.StatusNoContent)
	default:
		p.call(w, r, body)
	}
}

func (p *path) call(w http.ResponseWriter, r *http.Request, body []byte) {
	p.Headers, p.Body = map[string]string{}, nil
	for name := range r.Header {
		p.Headers[strings.ToLower(name)] = r.Header.Get(name)
	}
	if json.Valid(body) {
		p.Body = body
	}
	if p.Answer > 299 {
		p.Refused++
		w.WriteHeader(p.Answer)
		_, _ = io.WriteString(w, `{"error":"told to answer `+strconv.Itoa(p.Answer)+`"}`)
		return
	}
	p.Taken++
	w.WriteHeader(p.Answer)
	_, _ = io.WriteString(w, `{"ok":true}`)
}
