package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lib/pq"
)

// An outage logs one line when it begins, one each minute, and one when it ends, however much is
// logged in between. Other messages are logged as usual.
func TestTheMessagesOfAnOutageAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		var down atomic.Bool
		checks := 0
		h := newOutageLog(slog.NewTextHandler(&text, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			},
		}))
		log := slog.New(h)
		lines := func() []string {
			synctest.Wait()
			defer text.Reset()
			return strings.Split(strings.TrimSpace(text.String()), "\n")
		}
		away := slog.Any("error", fmt.Errorf("list sagas: %w", io.ErrUnexpectedEOF))
		log.Warn("request failed", away)
		if got := lines(); len(got) != 1 || !strings.Contains(got[0], "request failed") {
			t.Errorf("before the database is known: %q", got)
		}
		stop := h.watch(func(context.Context) error {
			checks++
			if down.Load() {
				return io.EOF
			}
			return nil
		})

		// The database answers, so something else is unreachable.
		for range 50 {
			log.With("webhook", "w").Warn("cannot deliver", away)
		}
		if got := lines(); len(got) != 50 || !strings.Contains(got[49], "webhook=w") || checks != 1 {
			t.Errorf("without an outage: %d lines, %d checks", len(got), checks)
		}

		down.Store(true)
		time.Sleep(2 * outageAnswers)
		for i, err := range []error{
			io.EOF, context.DeadlineExceeded, &pq.Error{Code: "57P03"}, &pq.Error{Code: "53300"}, &pq.Error{Code: "53100"},
		} {
			for range 20 {
				log.WithGroup("g").Error("request failed", slog.Int("i", i), slog.Any("error", err))
			}
		}
		if got := lines(); len(got) != 1 || !strings.Contains(got[0], "level=WARN") ||
			!strings.Contains(got[0], "cannot be used") {
			t.Errorf("when it begins: %q", got)
		}
		log.Warn("cannot renew the lease", away)
		log.Error("request failed", slog.Any("error", errors.New("a bug")))
		log.Error("request failed", slog.Any("error", &pq.Error{Code: "42703"}))
		log.Info("stopping")
		if got := lines(); len(got) != 3 {
			t.Errorf("messages about something else: %q", got)
		}
		time.Sleep(150 * time.Second)
		if got := lines(); len(got) != 2 || !strings.Contains(got[1], "messages=101") {
			t.Errorf("in between: %q", got)
		}
		down.Store(false)
		time.Sleep(2 * time.Second)
		if got := lines(); len(got) != 1 || !strings.Contains(got[0], "can be used again") ||
			!strings.Contains(got[0], "messages=101") {
			t.Errorf("when it ends: %q", got)
		}
		time.Sleep(2 * outageAnswers)
		log.Warn("cannot deliver", away)
		if got := lines(); len(got) != 1 || !strings.Contains(got[0], "cannot deliver") {
			t.Errorf("afterwards: %q", got)
		}
		down.Store(true)
		time.Sleep(2 * outageAnswers)
		log.Warn("cannot deliver", away)
		synctest.Wait()
		stop() // although the database has not come back
		log.Warn("cannot deliver", away)
		if got := lines(); len(got) != 2 {
			t.Errorf("without the check: %q", got)
		}
	})
}
