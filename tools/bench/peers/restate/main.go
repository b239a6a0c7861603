// Command restate is the service that Restate drives in `make bench-peers`: one order is three calls of
// participants or more, each a durable side effect; if the last one is refused, the first two are undone.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/server"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9080", "address to listen on")
	participant := flag.String("participant", "", "address of the participant")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	service := &Orders{participant: "http://" + *participant, client: &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true},
	}}
	quiet := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})
	endpoint := server.NewRestate().WithLogger(quiet, true).Bind(restate.Reflect(service))
	if err := endpoint.Start(ctx, *listen); err != nil {
		fmt.Fprintln(os.Stderr, "restate handler:", err)
		os.Exit(1)
	}
}

// Orders is the service; its exported methods are its handlers.
type Orders struct {
	participant string
	client      *http.Client
}

// Place makes three calls.
func (o *Orders) Place(ctx restate.Context, order json.RawMessage) (string, error) {
	return o.run(ctx, order, 3, "/shipment/create")
}

// Place10 makes ten calls.
func (o *Orders) Place10(ctx restate.Context, order json.RawMessage) (string, error) {
	return o.run(ctx, order, 10, "/shipment/create")
}

// Place20 makes twenty calls.
func (o *Orders) Place20(ctx restate.Context, order json.RawMessage) (string, error) {
	return o.run(ctx, order, 20, "/shipment/create")
}

// Refuse makes three calls, of which the last is refused.
func (o *Orders) Refuse(ctx restate.Context, order json.RawMessage) (string, error) {
	return o.run(ctx, order, 3, "/shipment/refuse")
}

// RefuseThird makes three calls, of which the last is refused for every third order.
func (o *Orders) RefuseThird(ctx restate.Context, order json.RawMessage) (string, error) {
	return o.run(ctx, order, 3, "/shipment/refuse-third")
}

func (o *Orders) run(ctx restate.Context, order json.RawMessage, calls int, last string) (string, error) {
	type step struct{ action, undo string }
	steps := []step{{"/stock/reserve", "/stock/release"}, {"/payment/charge", "/payment/refund"}}
	for i := 3; i < calls; i++ {
		steps = append(steps, step{action: fmt.Sprint("/further/step-", i)})
	}
	steps = append(steps, step{action: last})
	for i, step := range steps {
		err := o.call(ctx, step.action, order)
		if err == nil {
			continue
		}
		for j := i - 1; j >= 0; j-- {
			if err := o.call(ctx, steps[j].undo, order); err != nil {
				return "", err
			}
		}
		return "", err
	}
	return "COMPLETED", nil
}

// call is one durable side effect: its result is in Restate's log before the next one begins.
func (o *Orders) call(ctx restate.Context, path string, order json.RawMessage) error {
	_, err := restate.Run(ctx, func(ctx restate.RunContext) (json.RawMessage, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, o.participant+path, bytes.NewReader(order))
		if err != nil {
			return nil, err
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := o.client.Do(request)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			return nil, err
		}
		switch {
		case response.StatusCode == http.StatusConflict:
			return nil, restate.ToTerminalError(fmt.Errorf("refused: %s", answer), restate.WithErrorCode(http.StatusConflict))
		case response.StatusCode != http.StatusOK:
			return nil, fmt.Errorf("status %d: %s", response.StatusCode, answer)
		}
		return answer, nil
	})
	if err != nil {
		return err
	}
	return nil
}
