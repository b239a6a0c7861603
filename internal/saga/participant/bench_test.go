//go:build unix

package participant

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/saga"
)

// startServer runs a participant in a separate process and returns its URL.
func startServer(b *testing.B) string {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), benchServer+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { stdin.Close(); cmd.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line) + "/reservations"
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure runs call one at a time and 64 at a time, and reports this process's CPU time in addition
// to the usual figures.
func measure(b *testing.B, call func() error) {
	run := func(name string, body func(*testing.B)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			before := cpu()
			body(b)
			b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
		})
	}
	run("1", func(b *testing.B) {
		for range b.N {
			if err := call(); err != nil {
				b.Fatal(err)
			}
		}
	})
	run("64", func(b *testing.B) {
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

type notDone saga.Outcome

func (o notDone) Error() string { return o.Code + ": " + o.Message }

func BenchmarkCall(b *testing.B) {
	c := newClient(b, func(cfg *Config) { cfg.Now = time.Now })
	call := callTo(startServer(b))
	call.Trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	measure(b, func() error {
		if o := c.Call(ctx, call); o.Verdict != saga.Done {
			return notDone(o)
		}
		return nil
	})
}

// BenchmarkHTTPClient measures the lower bound that net/http's client sets for the same call.
func BenchmarkHTTPClient(b *testing.B) {
	transport := &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	call := callTo(startServer(b))
	measure(b, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), call.Timeout)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, call.By.HTTP.URL, bytes.NewReader(call.Body))
		if err != nil {
			return err
		}
		req.GetBody = nil
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", call.Key)
		req.Header.Set("X-Saga-Id", call.SagaID.String())
		req.Header.Set("X-Saga-Step", call.Step)
		req.Header.Set("X-Saga-Action", "execute")
		req.Header.Set("X-Saga-Attempt", "1")
		req.Header.Set("X-Saga-Fence", "7")
		req.Header.Set("X-Saga-Deadline", time.Now().Add(call.Timeout).UTC().Format(deadlineFormat))
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
		return err
	})
}
