package sdktest

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-saga/skald/api/participant"
	"github.com/skald-saga/skald/internal/saga/certification"
	"github.com/skald-saga/skald/internal/saga/certification/player"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// process is a participant that answers later, running as a process that can be killed.
type process struct {
	t       *testing.T
	command func() *exec.Cmd
	running *exec.Cmd
	at      atomic.Pointer[url.URL]
}

// start starts the process. It can be reached once it has printed its address.
func (p *process) start() error {
	p.running = p.command()
	p.running.Stderr = os.Stderr
	out, err := p.running.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.running.Start(); err != nil {
		return err
	}
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if at, err := url.Parse(lines.Text()); err == nil && p.at.Load() == nil {
				p.at.Store(at)
			}
		}
	}()
	return nil
}

func (p *process) kill() {
	_ = p.running.Process.Kill()
	_ = p.running.Wait()
	p.at.Store(nil)
}

func (p *process) restart(context.Context) error {
	p.kill()
	return p.start()
}

// ServeHTTP forwards requests to the process, whose address changes with each restart.
func (p *process) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := p.at.Load()
	if at == nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: at.Scheme, Host: at.Host})
	}}).ServeHTTP(w, r)
}

// certifiesLater certifies how a participant answers later, and kills it meanwhile. Its work must
// take longer than the restart, so the test tries longer work if the first duration was not enough.
func certifiesLater(t *testing.T, command func(env ...string) *exec.Cmd) {
	t.Helper()
	var report certification.Report
	for work := time.Second; work < time.Minute; work *= 4 {
		p := &process{t: t, command: func() *exec.Cmd {
			return command("PORT=0", "WORK_MS="+strconv.FormatInt(work.Milliseconds(), 10))
		}}
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.kill() })
		patience.Until(t, "the participant listens", func() bool { return p.at.Load() != nil })
		front := httptest.NewServer(p)
		t.Cleanup(front.Close)
		var err error
		report, err = player.Run(patience.Context(t), player.Config{
			URL: front.URL + "/parcels", Effects: front.URL + "/effects", Version: "test", Later: true,
			LaterFor: patience.Limit, Restart: p.restart,
		})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(report.Text(), "the work was finished before") {
			break
		}
	}
	if !report.Certified || len(report.Played) < 5 {
		t.Error(report.Text())
	}
}

func TestGoAnswersLater(t *testing.T) {
	t.Parallel()
	database := testdb.Empty(t)
	db, err := participant.Open("postgres", database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), participant.Migration(participant.PostgreSQL)); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "packing")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s", "-o", program, "./testdata/packing")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	certifiesLater(t, func(env ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = append(append(os.Environ(), env...), "DATABASE_URL="+database)
		return cmd
	})
}

func TestPythonAnswersLater(t *testing.T) {
	t.Parallel()
	reads(t, "../python")
	database := filepath.Join(t.TempDir(), "packing.db")
	certifiesLater(t, func(env ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "python3", "example/packing.py")
		cmd.Dir = filepath.Join("..", "python")
		cmd.Env = append(append(os.Environ(), env...), "PACKING_DB="+database, "PYTHONPATH=src", "PYTHONDONTWRITEBYTECODE=1")
		return cmd
	})
}
