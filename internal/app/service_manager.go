package app

import (
	"context"
	"net/http"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/skald-saga/skald/internal/loop"
)

// Tells of a service manager that speaks systemd's protocol (sd_notify(3)); without one they do nothing. A manager
// that cannot be reached is not an error of the server.

// tellListening reports that the server answers requests with h. It may still wait for its database, as the status
// then says: that a server is not ready for that reason needs no restart.
func tellListening(ctx context.Context, h http.Handler) {
	tellManager(daemon.SdNotifyReady)
	if every, err := daemon.SdWatchdogEnabled(false); err == nil && every > 0 {
		go answerWatchdog(ctx, every, h)
	}
}

func tellWaiting(obstacle string) { tellManager("STATUS=waiting: " + obstacle) }

func tellReady(url string) { tellManager("STATUS=ready on " + url) }

func tellStopping() { tellManager(daemon.SdNotifyStopping + "\nSTATUS=stopping") }

func tellManager(state string) { _, _ = daemon.SdNotify(false, state) }

// answerWatchdog reports every third of the interval that /healthz is answered: a process whose requests hang is
// restarted by the manager. It asks the handler rather than the socket, which may want a client's certificate.
func answerWatchdog(ctx context.Context, interval time.Duration, h http.Handler) {
	for loop.Sleep(ctx, interval/3) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "/healthz", nil)
		if err != nil {
			return
		}
		answer := &statusOnly{header: http.Header{}, status: http.StatusOK}
		h.ServeHTTP(answer, req)
		if answer.status == http.StatusOK {
			tellManager(daemon.SdNotifyWatchdog)
		}
	}
}

// statusOnly is a response of which only the status is kept.
type statusOnly struct {
	header http.Header
	status int
}

func (a *statusOnly) Header() http.Header         { return a.header }
func (a *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
func (a *statusOnly) WriteHeader(status int)      { a.status = status }
