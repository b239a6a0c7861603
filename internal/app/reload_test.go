package app_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/skald-saga/skald/internal/app"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
)

// What a hangup reads again, and what it says about the rest.
func TestAHangupReadsAgainWhatItCanAndNamesWhatNeedsARestart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secrets")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(secretOne)
	hangup, level := make(chan os.Signal), new(slog.LevelVar)
	var running config.Config
	load := func() (config.Config, error) { return running, nil }
	n := startWith(t, "", "a", func(o *app.Options) {
		o.Hangup, o.Level = hangup, level
		o.Load = func() (config.Config, error) { return load() }
	}, func(c *config.Config) {
		c.Store, c.Participants.SigningSecretsFile, c.Participants.SigningSecrets = config.Memory, file, secretOne
		running = *c
	})
	logs := func(part string) {
		t.Helper()
		patience.Until(t, "the log has "+part, func() bool { return strings.Contains(n.logs.String(), part) })
	}
	changed := running
	changed.Log.Level, changed.Engine.MaxRunning, changed.Participants.SigningSecrets = "debug", 7, secretTwo
	changed.Auth.BootstrapAdminKey = "hush"
	load = func() (config.Config, error) { return changed, nil }
	write(secretTwo + " " + secretOne)
	hangup <- syscall.SIGHUP
	logs(`"settings":["engine.max_running","auth.bootstrap_admin_key"]`)
	logs(`"msg":"read again","setting":"participants.signing_secrets_file"`)
	logs(`"msg":"read again","setting":"log.level"`)
	if level.Level() != slog.LevelDebug {
		t.Errorf("the level is %s", level.Level())
	}
	load = func() (config.Config, error) {
		return config.Config{}, errors.New("engine.lease_ttl: must be a duration")
	}
	write("nonsense")
	hangup <- syscall.SIGHUP
	logs("the settings have errors; the previous ones stay in use")
	logs(`"msg":"cannot read the changed files of a setting; the previous contents stay in use"`)
	for _, secret := range []string{"hush", secretOne, secretTwo, "nonsense"} {
		if strings.Contains(n.logs.String(), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}
