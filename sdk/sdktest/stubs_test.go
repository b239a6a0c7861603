//go:build sdk

package sdktest

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/skald-saga/skald/internal/saga/certification/player"
	"github.com/skald-saga/skald/internal/test/patience"
)

// For each language, a stub is generated from the contract, a participant is built on it
// (tools/stubs), and certified as `skald participant certify` does.
func TestParticipantsOnGeneratedStubs(t *testing.T) {
	for language, commands := range map[string][]string{
		"go": {
			`cd ../.. && ${GO:-go} tool oapi-codegen -package main -generate std-http,models ` +
				`-o tools/stubs/go/stub.gen.go api/participant.openapi.yaml`,
			`cd ../../tools/stubs/go && ${GO:-go} build -o "$BUILD/participant" .`,
			`exec "$BUILD/participant"`,
		},
		"java": {
			`cd ../../tools/stubs/java && mvn -q -B -C -Dbuild="$BUILD" package`,
			`exec java -cp "$BUILD/participant-1.jar:$BUILD/lib/*" example.Charges`,
		},
	} {
		t.Run(language, func(t *testing.T) {
			build, err := filepath.Abs(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			sh := func(command string) *exec.Cmd {
				cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
				cmd.Env = append(os.Environ(), "BUILD="+build)
				cmd.Stderr = os.Stderr
				return cmd
			}
			last := len(commands) - 1
			for _, command := range commands[:last] {
				if out, err := sh(command).Output(); err != nil {
					t.Fatalf("%s: %v\n%s", command, err, out)
				}
			}
			participant := sh(commands[last])
			out, err := participant.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := participant.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = participant.Process.Kill(); _ = participant.Wait() })
			lines := bufio.NewScanner(out)
			if !lines.Scan() {
				t.Fatalf("it has not said where it listens: %v", lines.Err())
			}
			url := lines.Text() + "/steps/{step}"
			report, err := player.Run(patience.Context(t), player.Config{
				URL: url, Compensation: url + "/compensation", Version: "test",
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Log(report.Text())
			if len(report.Findings) > 0 || len(report.Played) < 20 {
				t.Errorf("%d findings, %d vectors", len(report.Findings), len(report.Played))
			}
		})
	}
}
