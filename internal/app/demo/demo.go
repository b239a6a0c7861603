// Package demo runs the complete order example: participants with a durable ledger, a Skald node,
// and three orders: one completes, one is refused, and the outcome of one stays unknown. It prints
// what happened and checks the ledger. A demo that keeps running is a server with resources in
// every state, for people to explore and operate.
//
// Files, each on top of those before it: api, people, timeline, demo, sagas, services, jobs, keep, letters,
// participants.
package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/examples/order/ledger"
	"github.com/skald-saga/skald/examples/order/shop"
	"github.com/skald-saga/skald/internal/app"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/httpapi"
)

// Config configures a demo. All fields are required.
type Config struct {
	Skald    config.Config // as `serve` would use it; the address is replaced by an unused one
	Workflow string        // path of the example's workflow.yaml
	Dir      string        // directory of the ledger; an existing ledger is replaced
	Version  httpapi.Version
	Out      io.Writer
	Log      *slog.Logger
}

// written is the participants' address as written in workflow.yaml; the demo replaces it with the
// actual address.
const written = "127.0.0.1:9001"

// order is one order of the demo and the state in which it is expected to end.
type order struct {
	title   string
	payload string
	status  client.SagaStatus
	state   client.SagaState
	end     ledger.Outcome
}

var orders = []order{
	{"An order that completes", `{"order_id": "A-1", "sku": "lamp", "quantity": 2, "amount": 59.9, "card": "visa"}`,
		client.SagaStatusCOMPLETED, client.SagaStateCompleted, ledger.Completed},
	{
		"An order that payments refuses: the reservation is compensated",
		`{"order_id": "A-2", "sku": "lamp", "quantity": 2, "amount": 59.9, "card": "declined"}`,
		client.SagaStatusFAILED,
		client.SagaStateCompensated,
		ledger.Compensated,
	},
	{"An order whose charge succeeds but whose response is always lost: refunded first, then the reservation is canceled",
		`{"order_id": "A-3", "sku": "lamp", "quantity": 2, "amount": 59.9, "card": "visa", "simulate": {"charge-payment": "drop_reply_always"}}`,
		client.SagaStatusFAILED, client.SagaStateCompensated, ledger.Compensated},
}

// Run runs the demo. Its error describes any deviation from the expected result.
func Run(ctx context.Context, cfg Config) (err error) {
	path := filepath.Join(cfg.Dir, "ledger.jsonl")
	if err := errors.Join(os.MkdirAll(cfg.Dir, 0o755), removeIfThere(path)); err != nil {
		return err
	}
	participants, closeShop, err := openShop(path, cfg.Log)
	if err != nil {
		return fmt.Errorf("participants: %w", err)
	}
	defer closeShop()
	fmt.Fprintf(cfg.Out, "participants  http://%s, ledger %s\n", participants, path)

	cfg.Skald.Auth.Mode = config.AuthOff // the demo is its only client
	url, stop, err := startSkald(ctx, cfg, "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	fmt.Fprintf(cfg.Out, "skald         %s\n", url)

	c, err := client.NewClientWithResponses(url)
	if err != nil {
		return err
	}
	steps, err := register(ctx, c, cfg.Workflow, participants)
	if err != nil {
		return err
	}
	ends := map[string]ledger.SagaEnd{}
	for _, o := range orders {
		s, err := run(ctx, c, o)
		if err != nil {
			return fmt.Errorf("%s: %w", o.title, err)
		}
		printTimeline(cfg.Out, o.title, s)
		if s.Status != o.status || s.State != o.state {
			return fmt.Errorf("%s: the saga ended as %s (%s), want %s (%s)", o.title, s.Status, s.State, o.status, o.state)
		}
		ends[s.SagaID.String()] = ledger.SagaEnd{Outcome: o.end, Steps: steps}
	}
	return verify(cfg.Out, path, ends)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// openShop serves the participants on a free loopback port.
func openShop(path string, log *slog.Logger) (addr string, closeIt func(), err error) {
	s, err := shop.Open(shop.Config{Ledger: path, Log: log})
	if err != nil {
		return "", nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, errors.Join(err, s.Close())
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go server.Serve(l) //nolint:errcheck // returns after Close
	return l.Addr().String(), func() {
		server.Close()
		if err := s.Close(); err != nil {
			log.Error("close the ledger", slog.Any("error", err))
		}
	}, nil
}

// startSkald runs a whole node; stop ends it gracefully.
func startSkald(ctx context.Context, cfg Config, addr string) (url string, stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	cfg.Skald.Server.ListenAddr = addr
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- app.Run(ctx, cfg.Skald, app.Options{Version: cfg.Version, Log: cfg.Log,
			Ready: func(url string) { ready <- url }})
	}()
	select {
	case url = <-ready:
		return url, func() error { cancel(); return <-ended }, nil
	case err = <-ended:
		cancel()
		return "", nil, fmt.Errorf("skald: %w", err)
	}
}

// register registers the workflow with the participants' actual address and returns its step names.
func register(ctx context.Context, c *client.ClientWithResponses, path, participants string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the workflow of the example (run from the root of the repository, or use --workflow): %w", err)
	}
	text = bytes.ReplaceAll(text, []byte(written), []byte(participants))
	res, err := c.RegisterWorkflowWithBodyWithResponse(ctx, nil, "application/yaml", bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("register the workflow: %w", err)
	}
	w := res.JSON201
	if w == nil {
		w = res.JSON200
	}
	if w == nil {
		return nil, fmt.Errorf("register the workflow: %s: %s", res.Status(), res.Body)
	}
	return w.StepNames, nil
}

// run starts one saga and waits until it ends.
func run(ctx context.Context, c *client.ClientWithResponses, o order) (*client.Saga, error) {
	name, wait := "order", "30s"
	res, err := c.CreateSagaWithResponse(ctx, &client.CreateSagaParams{Wait: &wait},
		client.CreateSagaJSONRequestBody{WorkflowName: &name, Payload: json.RawMessage(o.payload)})
	if err != nil {
		return nil, err
	}
	if res.JSON201 == nil {
		return nil, fmt.Errorf("%s: %s", res.Status(), res.Body)
	}
	return res.JSON201, nil
}

// verify reads the ledger back from disk and compares it with the final states of the sagas.
func verify(out io.Writer, path string, ends map[string]ledger.SagaEnd) error {
	entries, err := ledger.Read(path)
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	found := ledger.Check(entries, ends)
	fmt.Fprintf(out, "\nledger: %d calls, %d sagas, %d violations\n", len(entries), len(ends), len(found))
	for _, v := range found {
		fmt.Fprintln(out, " ", v)
	}
	if len(found) > 0 {
		return errors.New("the ledger does not agree with the sagas")
	}
	fmt.Fprintln(out, "every effect was applied once or compensated in reverse order: the demo passed")
	return nil
}
