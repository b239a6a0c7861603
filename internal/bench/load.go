package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// waitFor is the wait that a waiting client requests from the server, answerTimeout how
	// long it waits for any response.
	waitFor       = 30 * time.Second
	answerTimeout = waitFor + 30*time.Second
	// errorPause protects a failing server from a flood of repeated requests, and keeps the
	// generator from taking the CPU that the server needs to recover.
	errorPause = 10 * time.Millisecond
)

// LoadConfig describes what one load generator does.
type LoadConfig struct {
	Target   string // base URL of the server
	Workflow string
	Mode     Mode
	Clients  int
	Duration time.Duration
	// WantStatus is the status a waiting client expects of the ended saga.
	WantStatus string
}

// Load lets cfg.Clients clients create sagas, each as soon as its previous request was
// answered, until cfg.Duration is over and the last response has arrived.
func Load(ctx context.Context, cfg LoadConfig) (LoadResult, error) {
	transport := &http.Transport{
		MaxIdleConns:          cfg.Clients,
		MaxIdleConnsPerHost:   cfg.Clients,
		DisableCompression:    true,
		ResponseHeaderTimeout: answerTimeout,
	}
	defer transport.CloseIdleConnections()

	clients := make([]*loadClient, cfg.Clients)
	for i := range clients {
		c, err := newLoadClient(ctx, cfg, transport)
		if err != nil {
			return LoadResult{}, err
		}
		clients[i] = c
	}
	result := LoadResult{StartedAt: time.Now().UTC()}
	end := result.StartedAt.Add(cfg.Duration)
	var group sync.WaitGroup
	for _, c := range clients {
		group.Go(func() { c.run(ctx, end) })
	}
	group.Wait()
	if err := ctx.Err(); err != nil {
		return LoadResult{}, fmt.Errorf("load interrupted: %w", err)
	}

	var samples []time.Duration
	for _, c := range clients {
		result.Accepted = append(result.Accepted, c.accepted...)
		samples = append(samples, c.samples...)
		result.Errors += c.errors
		if result.FirstError == "" && c.firstError != nil {
			result.FirstError = c.firstError.Error()
		}
	}
	result.Answers = summarize(samples)
	result.CPU = ownCPU()
	return result, nil
}

// loadClient sends the same request repeatedly. It allocates almost nothing, because it shares
// the machine with the server that it measures.
type loadClient struct {
	transport *http.Transport
	request   *http.Request
	body      *replayBody
	answer    bytes.Buffer
	wantState []byte // nil: the saga need not have ended

	samples    []time.Duration
	accepted   []string
	errors     int
	firstError error
}

// replayBody is a request body that can be sent again after Seek.
type replayBody struct{ *bytes.Reader }

func (replayBody) Close() error { return nil }

func newLoadClient(ctx context.Context, cfg LoadConfig, transport *http.Transport) (*loadClient, error) {
	target := strings.TrimSuffix(cfg.Target, "/") + "/api/v1/sagas"
	c := &loadClient{transport: transport}
	if cfg.Mode == Wait {
		target += "?wait=" + waitFor.String()
		c.wantState = []byte(`"status":"` + cfg.WantStatus + `"`)
	}
	c.body = &replayBody{bytes.NewReader(sagaRequest(cfg.Workflow))}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, c.body)
	if err != nil {
		return nil, fmt.Errorf("build the saga request: %w", err)
	}
	request.ContentLength = c.body.Size()
	request.Header.Set("Content-Type", "application/json")
	c.request = request
	return c, nil
}

// sagaRequest is the body that creates one saga, its payload about 100 bytes.
func sagaRequest(workflow string) []byte {
	const payload = `{"order_id":"A-10023","customer_id":"C-4711","amount":12900,"currency":"EUR","items":[{"sku":"S-1"}]}`
	return []byte(`{"workflow_name":"` + workflow + `","payload":` + payload + `}`)
}

func (c *loadClient) run(ctx context.Context, end time.Time) {
	for ctx.Err() == nil {
		start := time.Now()
		if !start.Before(end) {
			return
		}
		if err := c.create(); err != nil {
			c.errors++
			if c.firstError == nil {
				c.firstError = err
			}
			pause(ctx, errorPause)
			continue
		}
		c.samples = append(c.samples, time.Since(start))
	}
}

// create creates one saga. A saga that was accepted is kept in c.accepted even if the response
// is otherwise an error.
func (c *loadClient) create() error {
	if _, err := c.body.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("rewind the request body: %w", err)
	}
	// RoundTrip instead of Client.Do, which would handle redirects and cookies. The request can
	// be reused because the last response was read and closed.
	response, err := c.transport.RoundTrip(c.request)
	if err != nil {
		return fmt.Errorf("create a saga: %w", err)
	}
	c.answer.Reset()
	_, err = c.answer.ReadFrom(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return fmt.Errorf("read the answer to a saga: %w", err)
	}
	answer := c.answer.Bytes()
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("create a saga: status %d: %.300s", response.StatusCode, answer)
	}
	id, ok := sagaID(answer)
	if !ok {
		return fmt.Errorf("create a saga: no saga_id in %.300s", answer)
	}
	c.accepted = append(c.accepted, id)
	if c.wantState != nil && !bytes.Contains(answer, c.wantState) {
		return fmt.Errorf("wait for a saga: no %s in %.300s", c.wantState, answer)
	}
	return nil
}

var sagaIDKey = []byte(`"saga_id":"`)

const uuidLength = 36

// sagaID finds the first saga_id in a response without parsing all of it.
func sagaID(answer []byte) (string, bool) {
	_, rest, found := bytes.Cut(answer, sagaIDKey)
	if !found || len(rest) <= uuidLength || rest[uuidLength] != '"' {
		return "", false
	}
	return string(rest[:uuidLength]), true
}

// ownCPU is the user and system time of this process so far.
func ownCPU() time.Duration {
	var usage syscall.Rusage
	// Getrusage of the process itself cannot fail.
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
