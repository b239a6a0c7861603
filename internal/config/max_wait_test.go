package config

import (
	"testing"
	"time"
)

// Proxies answer 504 after 30 s (many load balancers), 50 s (HAProxy as it is shipped) or 60 s
// (nginx); the answer to a wait, which has the id of what was created, must come before.
func TestWaitsEndBeforeProxiesGiveUp(t *testing.T) {
	for _, profile := range []Environment{Dev, Test, Staging, Prod} {
		if wait := Default(profile).Server.MaxWait; wait <= 0 || wait > 25*time.Second {
			t.Errorf("%s: waits last up to %s, want 25s at most", profile, wait)
		}
	}
}
