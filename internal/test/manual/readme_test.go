package manual

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/testnet"
)

func TestTheSessionOfTheREADME(t *testing.T) {
	t.Parallel()
	shop, dir := testnet.FreeAddress(t), t.TempDir()
	Background(t, Program(t, "./examples/order"), []string{"-listen", shop})
	for _, file := range []string{"examples/order/workflow.yaml", "examples/worker/worker.sh"} {
		content, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(content), "127.0.0.1:9001", shop)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	addr := Serve(t)
	Session{
		Page: "README.md", Heading: "A session", Dir: dir, Env: []string{"SKALD_URL=http://" + addr},
		Replace: map[string]string{"127.0.0.1:8080": addr},
	}.Run(t)
}
