package credentials_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/secret/credentials"
)

func TestAPasswordFileIsReadAgainWhenItChangesAndWhenItIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	day := time.Now().Add(-time.Hour)
	write := func(content string, modified time.Time) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, modified, modified); err != nil {
			t.Fatal(err)
		}
	}
	var seen []error
	if _, err := credentials.NewFile(path, "", nil); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("without a file: %v", err)
	}
	write("\n", day)
	if _, err := credentials.NewFile(path, "", nil); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("an empty file: %v", err)
	}
	write("one\r\n", day)
	f, err := credentials.NewFile(path, "app", func(err error) { seen = append(seen, err) })
	if err != nil {
		t.Fatal(err)
	}
	none := credentials.Login{}
	refused := func(password string) credentials.Login { return credentials.Login{User: "app", Password: password} }
	for _, tt := range []struct {
		name    string
		before  func()
		refused credentials.Login
		want    string
		reads   int // total number after this step
		failed  bool
	}{
		{"nothing has changed", func() {}, none, "one", 0, false},
		{"another content at another time", func() { write("two", day.Add(time.Minute)) }, none, "two", 1, false},
		{"another content in the same tick", func() { write("3rd", day.Add(time.Minute)) }, none, "two", 1, false},
		{"which the server refuses", func() {}, refused("two"), "3rd", 2, false},
		{"an older refusal", func() {}, refused("two"), "3rd", 2, false},
		{"refused and not changed", func() {}, refused("3rd"), "3rd", 3, false},
		{"being written", func() { write("", day.Add(2*time.Minute)) }, none, "3rd", 4, true},
		{"taken away", func() { _ = os.Remove(path) }, none, "3rd", 5, true},
		{"put back", func() { write("four", day.Add(3*time.Minute)) }, none, "four", 6, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.before()
			got, err := f.Login(t.Context(), tt.refused)
			if err != nil || got.Password != tt.want || got.User != "app" {
				t.Errorf("Login = %v with %q, %v; want app with %q", got, got.Password, err, tt.want)
			}
			if len(seen) != tt.reads || len(seen) > 0 && (seen[len(seen)-1] != nil) != tt.failed {
				t.Errorf("observed %v, want %d readings, the last one failed: %v", seen, tt.reads, tt.failed)
			}
		})
	}
}

func TestALoginIsNeverPrintedWithItsPassword(t *testing.T) {
	l := credentials.Login{User: "app", Password: "canary"}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("signed in", slog.Any("login", l))
	if all := fmt.Sprintf("%v %+v %#v %s", l, l, l, l) + log.String(); strings.Contains(all, "canary") ||
		!strings.Contains(all, "app") {
		t.Errorf("printed as %s", all)
	}
}
