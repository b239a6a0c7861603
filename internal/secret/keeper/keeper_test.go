package keeper_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-saga/skald/internal/secret/keeper"
	"github.com/skald-saga/skald/internal/secret/vault"
	"github.com/skald-saga/skald/internal/secret/vault/vaulttest"
)

const path = "secret/data/card"

// world contains a keeper of a file and two keys of Vault.
type world struct {
	*keeper.Keeper
	t     *testing.T
	file  string
	vault *vaulttest.Vault

	mu  sync.Mutex // guards the data that the rounds write
	log bytes.Buffer
	bad []int
}

// Write implements io.Writer, for the log.
func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

// seen returns the number of failed reads and the log output.
func (w *world) seen() (failures int, log string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.bad), w.log.String()
}

func newWorld(t *testing.T, dir string) *world {
	t.Helper()
	w := &world{t: t, file: filepath.Join(dir, "key"), vault: vaulttest.New()}
	from, err := vault.NewReader(vault.Config{
		Address: "http://vault", Transport: w.vault, Method: vault.Token, Token: "root",
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Keeper = keeper.New(keeper.Config{
		Sources: []keeper.Source{
			{Label: "card.key", File: w.file}, {Label: "card.token", Path: path, Key: "token"},
			{Label: "card.other", Path: path, Key: "other"},
		},
		Vault: from.Read, MaxAge: time.Hour, Log: slog.New(slog.NewTextHandler(w, nil)),
		Observe: func(i int, err error) {
			if err != nil {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.bad = append(w.bad, i)
			}
		},
	})
	return w
}

func (w *world) write(text string) {
	w.t.Helper()
	if err := os.WriteFile(w.file+".new", []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(w.file+".new", w.file); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) wants(i int, value, wrong string) {
	w.t.Helper()
	got, err := w.Value(i)
	if got != value || wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
		w.t.Errorf("source %d: %q %v; want %q %s", i, got, err, value, wrong)
	}
	if err != nil && (strings.Contains(err.Error(), w.file) || strings.Contains(err.Error(), path)) {
		w.t.Errorf("%v names the path of the source", err)
	}
}

func TestARotationNeedsNoRestart(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dir)
		w.write("file-value-1\r\n")
		w.vault.Secret(path, map[string]any{"token": "vault-value-1", "other": "other-value\n"})
		w.wants(1, "", "has not been read yet")
		if !w.Round(t.Context()) {
			t.Fatal(w.log.String())
		}
		asked := len(w.vault.Requests())
		w.wants(0, "file-value-1", "")
		w.wants(1, "vault-value-1", "")
		w.wants(2, "other-value", "")
		if n := len(w.vault.Requests()); n != asked || strings.Count(fmt.Sprint(w.vault.Requests()), "GET "+path) != 1 {
			t.Errorf("Vault was asked %q", w.vault.Requests())
		}
		ctx, stop := context.WithCancel(t.Context())
		go w.Run(ctx)
		version := w.Version()
		w.write("file-value-2-longer")
		w.vault.Secret(path, map[string]any{"token": "vault-value-2", "other": "other-value"})
		time.Sleep(2 * time.Second)
		w.wants(0, "file-value-2-longer", "") // the file was checked when the value was requested
		w.wants(1, "vault-value-1", "")
		time.Sleep(time.Minute)
		w.wants(1, "vault-value-2", "")
		if got := w.Seen(1); !slices.Equal(got, []string{"vault-value-2", "vault-value-1"}) || w.Version() == version {
			t.Errorf("seen %q, version %d", got, w.Version())
		}
		stop()
		synctest.Wait()
		if _, log := w.seen(); strings.Contains(log, "value") {
			t.Errorf("the log has a value: %s", log)
		}
	})
}

// The last value is used as long as it is permitted; after that there is none.
func TestASecretThatCanNoLongerBeRead(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dir)
		w.write("file-value-1")
		w.vault.Secret(path, map[string]any{"token": "vault-value-1", "other": "other-value"})
		w.Round(t.Context())
		ctx, stop := context.WithCancel(t.Context())
		go w.Run(ctx)
		if err := os.Remove(w.file); err != nil {
			t.Fatal(err)
		}
		w.vault.Seal()
		time.Sleep(50 * time.Minute)
		w.wants(0, "file-value-1", "")
		w.wants(1, "vault-value-1", "")
		for i, why := range map[int]string{0: "no such file", 1: "Vault answers 503"} {
			if s := w.State(i); s.Readable || !strings.Contains(s.Why, why) || s.ReadAt.IsZero() || s.Why == "" {
				t.Errorf("source %d: %+v", i, s)
			}
		}
		failures, log := w.seen()
		if w.Unreadable() != 3 || failures < 3 || strings.Count(log, "msg=\"a secret of a participant cannot be read") > 3*6 {
			t.Errorf("%d unreadable, %d failures, log %s", w.Unreadable(), failures, log)
		}
		time.Sleep(11 * time.Minute)
		w.wants(0, "", "was last read at ")
		w.wants(1, "", "was last read at ")
		w.vault.Unseal()
		w.write("file-value-2")
		time.Sleep(10 * time.Second)
		w.wants(0, "file-value-2", "")
		w.wants(1, "vault-value-1", "")
		stop()
		synctest.Wait()
	})
}

func TestValuesThatAreNoSecrets(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		for text, wrong := range map[string]string{
			"": "is empty", "\n\n": "is empty", "short": "is too short", strings.Repeat("x", keeper.MaxLength+1): "is too large",
			strings.Repeat("x", 100<<10): "is too large", "two lines\nof text": "has a line break inside",
			"tab\tinside": "control character", "\xff\xfe\xfd12345": "is not UTF-8",
			" blank-before": "begins or ends with a blank",
		} {
			w := newWorld(t, dir)
			w.write(text)
			w.vault.Secret(path, map[string]any{"token": text, "other": 12345678})
			if w.Round(t.Context()) {
				t.Errorf("%.20q is a secret", text)
			}
			w.wants(0, "", wrong)
			if wrong != "is not UTF-8" { // JSON is always UTF-8
				w.wants(1, "", wrong)
			}
			w.wants(2, "", `has no text at key "other"`)
		}
		w := newWorld(t, dir)
		w.file += "-none"
		w.vault.Secret("secret/data/elsewhere", map[string]any{})
		w.Round(t.Context())
		w.wants(1, "", "Vault answers 404")
		w.vault.Secret(path, map[string]any{"token": "vault-value-1"})
		w.Round(t.Context())
		w.wants(2, "", `has no key "other"`)
		w.wants(1, "vault-value-1", "")
	})
}
