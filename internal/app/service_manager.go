package app

import (
	"context"
	"net/http"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/skald-saga/skald/internal/loop"
)

// Notifications to a service manager that supports systemd's protocol (sd_notify(3)). Without a
// manager they do nothing, and a manager that cannot be reached is not an error.

// notifyListening reports that the server answers requests with h. The server may still be waiting
// for its database; the status then says so, because a restart would not help.
func notifyListening(ctx context.Context, h http.Handler) {
	notifyManager(daemon.SdNotifyReady)
	if every, err := daemon.SdWatchdogEnabled(false); err == nil && every > 0 {
		go answerWatchdog(ctx, every, h)
	}
}

func notifyWaiting(obstacle string) { notifyManager("STATUS=waiting: " + obstacle) }

func notifyReady(url string) { notifyManager("STATUS=ready on " + url) }

func notifyStopping() { notifyManager(daemon.SdNotifyStopping + "\nSTATUS=stopping") }

func notifyManager(state string) { _, _ = daemon.SdNotify(false, state) }

// answerWatchdog reports three times per watchdog interval that /healthz is answered; the manager
// restarts a process whose requests hang. It calls the handler rather than the socket, which may
// require a client certificate.
func answerWatchdog(ctx context.Context, interval time.Duration, h http.Handler) {
	for loop.Sleep(ctx, interval/3) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "/healthz", nil)
		if err != nil {
			return
		}
		answer := &statusOnly{header: http.Header{}, status: http.StatusOK}
		h.ServeHTTP(answer, req)
		if answer.status == http.StatusOK {
			notifyManager(daemon.SdNotifyWatchdog)
		}
	}
}

// statusOnly is a response writer that keeps only the status.
type statusOnly struct {
	header http.Header
	status int
}

func (a *statusOnly) Header() http.Header         { return a.header }
func (a *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
func (a *statusOnly) WriteHeader(status int)      { a.status = status }
