package main

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/app"
)

type migrateExtras struct {
	Up     extrasUp     `cmd:"" help:"Create extra indexes, while writers continue. Each slows every write to its table."`
	Down   extrasDown   `cmd:"" help:"Drop extra indexes."`
	Status extrasStatus `cmd:"" default:"1" help:"List the extra indexes with the query that each serves and its size."`
}

type extrasUp struct {
	Names []string `arg:"" optional:"" help:"Names of the indexes. Default: all except those that another index makes unnecessary."`
}

func (e extrasUp) Run(ctx context.Context, c *cli) error {
	return withDatabase(ctx, c, func(dsn string) error {
		made, err := db.MakeExtras(app.Migrating(ctx, shell.Subject, "skald migrate extras up"), dsn, e.Names...)
		return printExtras(made, "created", err)
	})
}

type extrasDown struct {
	Names []string `arg:"" optional:"" help:"Names of the indexes. Default: all that exist."`
}

func (e extrasDown) Run(ctx context.Context, c *cli) error {
	return withDatabase(ctx, c, func(dsn string) error {
		dropped, err := db.DropExtras(app.Migrating(ctx, shell.Subject, "skald migrate extras down"), dsn, e.Names...)
		return printExtras(dropped, "dropped", err)
	})
}

// printExtras prints what was changed, even if a later change failed.
func printExtras(names []string, what string, err error) error {
	for _, name := range names {
		fmt.Println(what, name)
	}
	if err == nil {
		fmt.Println(counted(len(names), "extra index", "extra indexes"), what)
	}
	return err
}

type extrasStatus struct{}

func (extrasStatus) Run(ctx context.Context, c *cli) error {
	return withDatabase(ctx, c, func(dsn string) error {
		return connected(dsn, func(conn *sql.DB) error {
			list, err := db.Extras(ctx, conn)
			for _, e := range list {
				fmt.Println(extraLine(e))
			}
			return err
		})
	})
}

// extraLine describes whether an extra index exists and what it is for.
func extraLine(e db.ExtraState) string {
	state := "not created"
	switch {
	case e.Made && !e.Valid:
		state = "unusable: its creation was interrupted; run `skald migrate extras up` again"
	case e.Made:
		state = fmt.Sprintf("%d kB", (e.Bytes+1023)/1024)
	case e.Twin != "":
		state = "not needed: " + e.Twin + " serves this"
	}
	return fmt.Sprintf("%-36s %s; %s", e.Name, state, e.For)
}
