package stub

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// path records the calls to one path, and holds its answer.
type path struct {
	Answer  int               `json:"answer"`
	Taken   int               `json:"taken"`
	Refused int               `json:"refused"`
	Headers map[string]string `json:"headers,omitempty"` // from the last call
	Body    json.RawMessage   `json:"body,omitempty"`
}

// paths holds every path that was called or configured.
type paths struct {
	mu    sync.Mutex
	known map[string]*path
}

// at returns a path. The caller holds the lock.
func (p *paths) at(name string) *path {
	if p.known[name] == nil {
		p.known[name] = &path{Answer: http.StatusOK}
	}
	return p.known[name]
}

// called records a call and returns the status with which its path answers.
func (p *paths) called(r *http.Request, body []byte) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.at(r.URL.Path)
	at.Headers, at.Body = map[string]string{}, nil
	for name := range r.Header {
		at.Headers[strings.ToLower(name)] = r.Header.Get(name)
	}
	if json.Valid(body) {
		at.Body = body
	}
	return at.Answer
}

// answered counts the answer to a call.
func (p *paths) answered(name string, status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.at(name); status > 299 {
		at.Refused++
	} else {
		at.Taken++
	}
}

// configure sets the status with which a path answers, and reports whether the text is a valid
// status.
func (p *paths) configure(name string, text []byte) bool {
	status, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || status < 200 || status > 599 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at(name).Answer = status
	return true
}

// show returns the record of a path as JSON.
func (p *paths) show(name string) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, _ := json.Marshal(p.at(name)) // all of its values can be encoded
	return append(text, '\n')
}
