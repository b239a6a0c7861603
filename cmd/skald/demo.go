package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/skald-saga/skald/internal/app/demo"
)

type demoCmd struct {
	Workflow string  `default:"examples/order/workflow.yaml" help:"Workflow file of the example."`
	Dir      string  `default:".skald/demo" help:"Directory for the participants' ledger, or for the database of --keep."`
	Keep     bool    `help:"Instead of running the orders, serve a private server with something in every state at server.listen_addr until Ctrl-C."`
	Scale    float64 `default:"1" help:"With --keep: the amount of data; 1 means 3,000 dead letters."`
}

func (d demoCmd) Run(ctx context.Context, c *cli) error {
	cfg, _, err := c.load()
	if err != nil {
		return err
	}
	// The table is the demo's output; the server's log would bury it.
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	if d.Keep {
		return demo.Keep(ctx, demo.KeepConfig{
			Skald: cfg, Scale: d.Scale, Dir: d.Dir, Version: buildInfo(), Out: os.Stdout, Log: log,
		})
	}
	return demo.Run(
		ctx,
		demo.Config{Skald: cfg, Workflow: d.Workflow, Dir: d.Dir, Version: buildInfo(), Out: os.Stdout, Log: log},
	)
}
