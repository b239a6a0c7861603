//go:build sdk

// Package sdktest runs the tests of the libraries in other languages on a real PostgreSQL: make
// test-sdk.
package sdktest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/skald-saga/skald/internal/test/testdb"
)

// commands are the test commands of each library. sh runs them in its folder one after another,
// with DATABASE_URL.
var commands = map[string][]string{
	"python":     {"sh test.sh"},
	"typescript": {"npm ci --ignore-scripts --no-audit --no-fund", "npm test"},
}

// TestLibraries fails if a program is missing; it skips nothing.
func TestLibraries(t *testing.T) {
	for language, all := range commands {
		t.Run(language, func(t *testing.T) {
			database := testdb.Empty(t)
			for _, command := range all {
				cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
				cmd.Dir = filepath.Join("..", language)
				cmd.Env = append(os.Environ(), "DATABASE_URL="+database)
				cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
				if err := cmd.Run(); err != nil {
					t.Fatalf("%s: %v", command, err)
				}
			}
		})
	}
}

func TestTypeScriptAnswersLater(t *testing.T) {
	folder, database := filepath.Join("..", "typescript"), testdb.Empty(t)
	for _, command := range []string{"npm ci --ignore-scripts --no-audit --no-fund", "npm run build"} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	certifiesLater(t, func(env ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "node", "example/packing.mjs")
		cmd.Dir = folder
		cmd.Env = append(append(os.Environ(), env...), "DATABASE_URL="+database)
		return cmd
	})
}
