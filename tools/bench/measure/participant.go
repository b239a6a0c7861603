package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Participant answers calls of steps: 200 with a small JSON body, or 409 when the path ends in
// /refuse, or for every third call whose path ends in /refuse-third. It stores nothing else, so
// that Skald is measured and not its participants.
var Participant http.Handler = http.HandlerFunc(answerStep)

func answerStep(w http.ResponseWriter, r *http.Request) {
	// The connection is reused only if the body was read to its end.
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, "unreadable body", http.StatusBadRequest)
		return
	}
	reply(w, r.URL.Path)
}

// ServeParticipant serves Participant on addr until ctx ends, and writes its address, one line,
// to out as soon as it accepts calls. With record, it also remembers
// which calls were made for which order.
func ServeParticipant(ctx context.Context, addr string, record bool, out io.Writer) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for participant calls: %w", err)
	}
	if _, err := fmt.Fprintln(out, listener.Addr()); err != nil {
		return errors.Join(fmt.Errorf("announce the participant's address: %w", err), listener.Close())
	}
	handler := Participant
	if record {
		handler = &recorder{orders: map[string]calls{}}
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve participant calls: %w", err)
	}
	return nil
}
