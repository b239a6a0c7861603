package retry_test

import (
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/retry"
)

func TestRetryAfterIsReadInEveryForm(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, " 600 ": 10 * time.Minute, "86401": 24 * time.Hour,
		"99999999999999999999": 24 * time.Hour, "-1": 0, "1.5": 0, "soon": 0,
		"Thu, 26 Nov 2026 12:01:00 GMT": time.Minute, "Thursday, 26-Nov-26 12:01:00 GMT": time.Minute,
		"Thu Nov 26 12:01:00 2026": time.Minute, "Thu, 26 Nov 2026 11:59:00 GMT": 0, "Thu, 26 Nov 2048 12:01:00 GMT": 24 * time.Hour,
	} {
		if got := retry.After(header, now); got != want {
			t.Errorf("%q asks for %v, want %v", header, got, want)
		}
	}
	for status, want := range map[int]bool{
		200: false, 400: false, 408: true, 425: true, 429: true, 500: false, 502: false, 503: true, 504: false,
	} {
		if retry.AsksToWait(status) != want {
			t.Errorf("%d asks to wait: %t", status, !want)
		}
	}
}
