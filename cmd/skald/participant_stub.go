package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/skald-saga/skald/internal/saga/stub"
)

type participantStub struct {
	Listen string             `default:"127.0.0.1:9001" help:"Address to serve on."`
	Rate   map[string]float64 `placeholder:"FAULT=SHARE" help:"Share of calls that get a fault: ok, refuse, error, busy, timeout, lose, twice, forget, or later, alone or with -refuse, -never, -twice, -late or -heartbeat."`
	After  time.Duration      `default:"2s" help:"How long the work takes for a call that is answered later."`
	Script string             `type:"existingfile" help:"JSON file with the faults for successive calls of a step's action, such as {\"charge/execute\": [\"error\", \"ok\"]}."`
}

func (p participantStub) Run(ctx context.Context) error {
	cfg := stub.Config{Rates: p.Rate, After: p.After}
	if p.Script != "" {
		text, err := os.ReadFile(p.Script)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &cfg.Script); err != nil {
			return fmt.Errorf("%s: %w", p.Script, err)
		}
	}
	handler, err := stub.New(cfg)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.Listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	fmt.Printf("participant at http://%s\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
