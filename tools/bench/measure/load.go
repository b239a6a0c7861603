package measure

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
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
	// Payload is the size of a saga's payload in bytes; 0: about 100.
	Payload  int
	Duration time.Duration
	// WantStatus is the status a waiting client expects of the ended saga; "": any.
	WantStatus string
	// Orders replaces the request for a saga of Skald by another one, unless its URL is empty.
	Orders OrderRequest
}

// OrderRequest describes a request about one order, to Skald or to one of its peers.
type OrderRequest struct {
	URL string
	// Body has orderPlace wherever the id of the order belongs.
	Body string
	// A response counts only if it matches one of these.
	Want []OrderAnswer
}

// OrderAnswer describes responses with this status code that contain Text.
type OrderAnswer struct {
	Code int
	Text string
}

// orderPlace is as long as the ids that replace it.
const orderPlace = "{order_id}--------------------------"

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
	result.EndedAt = time.Now().UTC()
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
	orders    *orderClient

	samples    []time.Duration
	accepted   []string
	errors     int
	firstError error
}

// replayBody is a request body that can be sent again after Seek.
type replayBody struct{ *bytes.Reader }

func (replayBody) Close() error { return nil }

func newLoadClient(ctx context.Context, cfg LoadConfig, transport *http.Transport) (*loadClient, error) {
	if cfg.Orders.URL != "" {
		return newOrderClient(ctx, cfg.Orders, transport)
	}
	target := strings.TrimSuffix(cfg.Target, "/") + "/api/v1/sagas"
	c := &loadClient{transport: transport}
	if cfg.Mode == Wait {
		target += "?wait=" + waitFor.String()
		if cfg.WantStatus != "" {
			c.wantState = []byte(`"status":"` + cfg.WantStatus + `"`)
		}
	}
	return c, c.post(ctx, target, sagaRequest(cfg.Workflow, "A-10023", cfg.Payload))
}

// post prepares the request that the client repeats.
func (c *loadClient) post(ctx context.Context, target string, body []byte) error {
	c.body = &replayBody{bytes.NewReader(body)}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, c.body)
	if err != nil {
		return fmt.Errorf("build the request: %w", err)
	}
	request.ContentLength = c.body.Size()
	request.Header.Set("Content-Type", "application/json")
	c.request = request
	return nil
}

// sagaRequest is the body that creates one saga with the payload of an order.
func sagaRequest(workflow, order string, size int) []byte {
	return []byte(`{"workflow_name":"` + workflow + `","payload":` + payload(order, size) + `}`)
}

// payload describes an order in size bytes, which do not compress; 0: about 100.
func payload(order string, size int) string {
	text := `{"order_id":"` + order + `","customer_id":"C-4711","amount":12900,"currency":"EUR","items":[{"sku":"S-1"}]}`
	if more := size - len(text); more > 0 {
		noise := make([]byte, more)
		_, _ = rand.NewChaCha8([32]byte{1}).Read(noise) // never fails
		text = text[:len(text)-1] + `,"note":"` + base64.StdEncoding.EncodeToString(noise)[:more] + `"}`
	}
	return text
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
	if c.orders != nil {
		c.orders.next()
	}
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
		return fmt.Errorf("read the response: %w", err)
	}
	answer := c.answer.Bytes()
	if c.orders != nil {
		if err := c.orders.check(response.StatusCode, answer); err != nil {
			return err
		}
		c.accepted = append(c.accepted, c.orders.id)
		return nil
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("create a saga: status %d: %.300s", response.StatusCode, answer)
	}
	id, ok := sagaID(answer)
	if !ok {
		return fmt.Errorf("create a saga: the response lacks saga_id: %.300s", answer)
	}
	c.accepted = append(c.accepted, id)
	if c.wantState != nil && !bytes.Contains(answer, c.wantState) {
		return fmt.Errorf("wait for a saga: the response lacks %s: %.300s", c.wantState, answer)
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

// orderClient is what a loadClient needs for requests about orders.
type orderClient struct {
	want   []OrderAnswer
	body   []byte
	places []int
	id     string
}

func newOrderClient(ctx context.Context, orders OrderRequest, transport *http.Transport) (*loadClient, error) {
	o := &orderClient{want: orders.Want, body: []byte(orders.Body)}
	for at := 0; ; {
		i := strings.Index(orders.Body[at:], orderPlace)
		if i < 0 {
			break
		}
		o.places = append(o.places, at+i)
		at += i + len(orderPlace)
	}
	if len(o.places) == 0 {
		return nil, fmt.Errorf("the body of a request needs %q where the id of the order belongs", orderPlace)
	}
	c := &loadClient{transport: transport, orders: o}
	return c, c.post(ctx, orders.URL, o.body)
}

// next writes the id of a new order into the body. The ids are in order of time, which every
// database likes best.
func (o *orderClient) next() {
	o.id = uuid.Must(uuid.NewV7()).String()
	for _, at := range o.places {
		copy(o.body[at:], o.id)
	}
}

func (o *orderClient) check(code int, answer []byte) error {
	for _, want := range o.want {
		if code == want.Code && bytes.Contains(answer, []byte(want.Text)) {
			return nil
		}
	}
	return fmt.Errorf("place an order: status %d, want one of %v: %.300s", code, o.want, answer)
}
