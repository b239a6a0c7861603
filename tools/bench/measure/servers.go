package measure

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	// readyTimeout is how long any process may take to become ready.
	readyTimeout = 30 * time.Second
	// readyPoll is how often the server is polled; it limits the error of the measured time to
	// ready.
	readyPoll = 2 * time.Millisecond
)

// startParticipant starts the participant's process and reads its address.
func (r *run) startParticipant(ctx context.Context) (err error) {
	r.participant, r.participantAddr, err = startAnnounced(
		ctx,
		"participant",
		r.cfg.Self,
		"participant",
		"-listen",
		"127.0.0.1:0",
	)
	return err
}

// startAnnounced starts a process of this program that writes its address, one line, as soon as
// it serves.
func startAnnounced(ctx context.Context, name, self string, args ...string) (c *child, addr string, err error) {
	cmd := exec.Command(self, args...)
	cmd.Env, cmd.Stderr = environment(), os.Stderr
	// Not a pipe from StdoutPipe: Wait, which startChild calls immediately, would close it.
	output, input, err := os.Pipe()
	if err != nil {
		return nil, "", fmt.Errorf("start %s: %w", name, err)
	}
	defer output.Close()
	cmd.Stdout = input
	c, err = startChild(name, cmd)
	// Once our copy is closed, the pipe ends when the process does.
	_ = input.Close()
	if err != nil {
		return nil, "", err
	}
	if err := output.SetReadDeadline(time.Now().Add(readyTimeout)); err != nil {
		return c, "", fmt.Errorf("wait for the address of the %s: %w", name, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = output.Close() })
	defer stop()
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return c, "", fmt.Errorf("wait for the address of the %s: %w", name, err)
	}
	return c, strings.TrimSpace(line), nil
}

// measureStart starts the server and sets ready to the time until its first positive readiness
// response.
func (r *run) measureStart(ctx context.Context, ready *Millis) error {
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(r.serverLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the server's log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(r.cfg.Skald, "serve")
	cmd.Dir = r.cfg.Dir // no configuration file of the working directory
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(environment(
		"SKALD_DATABASE_URL="+r.cfg.DatabaseURL,
		"SKALD_LISTEN_ADDR="+addr,
		"SKALD_EGRESS_ALLOW="+r.participantAddr,
		"SKALD_LOG_LEVEL=warn",
	), r.cfg.ServerEnv...)

	start := time.Now()
	server, err := startChild("skald", cmd)
	if err != nil {
		return err
	}
	r.server, r.serverURL = server, "http://"+addr
	if err := awaitReady(ctx, server, r.serverURL+"/readyz"); err != nil {
		return err
	}
	*ready = millis(time.Since(start))
	return nil
}

// awaitReady polls url until it returns 200, the process ends, or the time is up.
func awaitReady(ctx context.Context, server *child, url string) error {
	return await(ctx, server, url, func(ctx context.Context) error {
		if !answersOK(ctx, url) {
			return errors.New("no response with status 200")
		}
		return nil
	})
}

// await returns when ready does not return an error any more, or the child has ended, or it takes too long.
func await(ctx context.Context, c *child, what string, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		if err := c.ended(); err != nil {
			return err
		}
		err := ready(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("wait for %s: %w: %w", what, ctx.Err(), err)
		}
		pause(ctx, readyPoll)
	}
}

func answersOK(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false // not listening yet
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

// freeAddr picks a port that was free a moment ago. If another process takes it first, the
// server logs that and the run ends.
func freeAddr() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return addr, nil
}

// runLoad runs a load generator in its own process and returns its result.
func (r *run) runLoad(ctx context.Context, spec levelSpec, duration time.Duration) (LoadResult, error) {
	return execLoad(ctx, r.cfg.Self, duration, []string{
		"-target", r.serverURL,
		"-workflow", spec.flow.name,
		"-mode", string(spec.mode),
		"-clients", fmt.Sprint(spec.clients),
		"-payload", fmt.Sprint(spec.payload),
		"-duration", duration.String(),
		"-want-status", spec.flow.wantStatus,
	}, nil)
}

// execLoad runs a load generator with these flags and standard input for duration.
func execLoad(
	ctx context.Context,
	self string,
	duration time.Duration,
	flags []string,
	input io.Reader,
) (LoadResult, error) {
	ctx, cancel := context.WithTimeout(ctx, duration+2*answerTimeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, self, append([]string{"load"}, flags...)...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = environment(), input, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return LoadResult{}, fmt.Errorf("run the load generator: %w: %s", err, stderr.Bytes())
	}
	var result LoadResult
	if err := json.Unmarshal(stdout.Bytes(), &result); err != nil {
		return LoadResult{}, fmt.Errorf("read the load generator's result: %w", err)
	}
	if len(result.Accepted) == 0 {
		return LoadResult{}, fmt.Errorf("no saga was accepted (errors: %d); the first error: %s", result.Errors, result.FirstError)
	}
	return result, nil
}
