package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Participant answers calls of steps: 200 with a small JSON body, or 409 when the path ends in
// /refuse. It stores nothing, so that Skald is measured and not its participants.
var Participant http.Handler = http.HandlerFunc(answerStep)

// The header values are shared by all answers; net/http only reads them.
var (
	jsonType    = []string{"application/json"}
	doneBody    = []byte(`{"ok":true}`)
	refusedBody = []byte(`{"error":"refused by the benchmark"}`)
)

func answerStep(w http.ResponseWriter, r *http.Request) {
	// The connection is reused only if the body was read to its end.
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, "unreadable body", http.StatusBadRequest)
		return
	}
	w.Header()["Content-Type"] = jsonType
	body := doneBody
	if strings.HasSuffix(r.URL.Path, "/refuse") {
		w.WriteHeader(http.StatusConflict)
		body = refusedBody
	}
	// A caller that has disconnected records the failed call itself.
	_, _ = w.Write(body)
}

// ServeParticipant serves Participant on addr until ctx ends, and writes its address, one line,
// to out as soon as it accepts calls.
func ServeParticipant(ctx context.Context, addr string, out io.Writer) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for participant calls: %w", err)
	}
	if _, err := fmt.Fprintln(out, listener.Addr()); err != nil {
		return errors.Join(fmt.Errorf("announce the participant's address: %w", err), listener.Close())
	}
	server := &http.Server{Handler: Participant, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve participant calls: %w", err)
	}
	return nil
}
