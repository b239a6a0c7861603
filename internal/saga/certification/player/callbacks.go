package player

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/saga/callback/reported"
	"github.com/skald-saga/skald/internal/saga/certification"
)

// callbacks is a Receiver that listens on its own address.
type callbacks struct {
	url    string
	server *http.Server
	mu     sync.Mutex
	got    map[string][]certification.Told // by call; guarded by mu
	asked  map[string]bool                 // calls whose first report is rejected; guarded by mu
}

// listen serves callbacks on an address. base is the URL by which the participant reaches it; ""
// means the address.
func listen(ctx context.Context, address, base string) (*callbacks, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for reports: %w", err)
	}
	if base == "" {
		base = "http://" + listener.Addr().String()
	}
	b := &callbacks{url: strings.TrimSuffix(base, "/"), got: map[string][]certification.Told{}, asked: map[string]bool{}}
	b.server = &http.Server{Handler: b, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = b.server.Serve(listener) }()
	return b, nil
}

func (b *callbacks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	if err != nil {
		return
	}
	t := certification.ReadTold(body)
	if r.Method != http.MethodPost {
		t = certification.Told{Wrong: r.Method + " " + t.Wrong}
	}
	if t.Result == reported.Heartbeat {
		_, _ = io.WriteString(w, `{"result":"heartbeat"}`)
		return
	}
	call := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.asked[call] {
		b.asked[call] = false
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	b.got[call] = append(b.got[call], t)
	if t.Wrong != "" {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	_, _ = fmt.Fprintf(w, `{"result":%q,"repeated":%t}`, t.Result, len(b.got[call]) > 1)
}

// Callback implements Receiver.
func (b *callbacks) Callback(call string, _, again bool) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked[call] = again
	return b.url + "/" + call
}

// First implements Receiver.
func (b *callbacks) First(_ context.Context, call string) (*certification.Told, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.got[call]) == 0 {
		return nil, nil //nolint:nilnil // nothing was reported yet
	}
	return &b.got[call][0], nil
}
