package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/skald-saga/skald/internal/app/demo"
)

type demoCmd struct {
	Workflow string `default:"examples/order/workflow.yaml" help:"Workflow file of the example."`
	Dir      string `default:".skald/demo" help:"File for the participants' ledger."`
}

func (d demoCmd) Run(ctx context.Context, c *cli) error {
	cfg, _, err := c.load()
	if err != nil {
		return err
	}
	// The table is the demo's output; the server's log would bury it.
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	return demo.Run(
		ctx,
		demo.Config{Skald: cfg, Workflow: d.Workflow, Dir: d.Dir, Version: buildInfo(), Out: os.Stdout, Log: log},
	)
}
