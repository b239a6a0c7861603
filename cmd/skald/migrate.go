package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/app"
)

type migrateCmd struct {
	Private bool `help:"Use the private PostgreSQL of database.embedded_dir, if no database is configured."`

	Up     migrateUp     `cmd:"" help:"Apply all pending migrations."`
	Down   migrateDown   `cmd:"" help:"Revert the newest migrations. Data in the tables and columns that they added is lost."`
	Status migrateStatus `cmd:"" help:"List migrations and when they were applied, and the extra indexes that exist."`
	Extras migrateExtras `cmd:"" help:"Create, drop or list indexes that Skald does not need, for queries that people write themselves."`
	Roles  migrateRoles  `cmd:"" help:"Print the SQL that creates the database roles. An administrator runs it if Skald's own login may not create roles."`
}

type migrateUp struct{}

func (migrateUp) Run(ctx context.Context, c *cli) error {
	return withDatabase(ctx, c, func(dsn string) error {
		n, err := db.Up(app.Migrating(ctx, shell.Subject, "skald migrate up"), dsn)
		if err != nil {
			return err
		}
		fmt.Printf("%d migrations applied\n", n)
		if err := db.Secured(ctx, dsn); err != nil {
			fmt.Fprintf(
				os.Stderr,
				"warning: %v. Until then SKALD_ENV=prod does not start (docs/tenants.md, \"Setting it up\").\n",
				err,
			)
		}
		return nil
	})
}

type migrateDown struct {
	Count int `arg:"" help:"Number of migrations to revert."`
}

func (m migrateDown) Run(ctx context.Context, c *cli) error {
	if m.Count < 1 {
		return fmt.Errorf("the count must be 1 or more")
	}
	return withDatabase(ctx, c, func(dsn string) error {
		n, err := db.Down(app.Migrating(ctx, shell.Subject, "skald migrate down"), dsn, m.Count)
		if err == nil {
			fmt.Printf("%d migrations reverted\n", n)
		}
		return err
	})
}

type migrateStatus struct{}

func (migrateStatus) Run(ctx context.Context, c *cli) error {
	return withDatabase(ctx, c, func(dsn string) error {
		conn, err := sql.Open("postgres", dsn)
		if err != nil {
			return err
		}
		defer conn.Close()
		list, err := db.Status(ctx, conn)
		for _, m := range list {
			at := "not applied"
			if !m.At.IsZero() {
				at = m.At.Format("2006-01-02 15:04:05Z")
			}
			fmt.Printf("%-30s %s\n", m.ID, at)
		}
		if err != nil {
			return err
		}
		extras, err := db.Extras(ctx, conn)
		for _, e := range extras {
			if e.Made {
				fmt.Printf("%-30s %s\n", "extra index", extraLine(e))
			}
		}
		return err
	})
}

type migrateRoles struct {
	Login []string `arg:"" optional:"" help:"Logins that become members of the roles: those of Skald, including the schema owner. Default: the configured one."`
}

func (m migrateRoles) Run(c *cli) error {
	if len(m.Login) == 0 {
		cfg, _, err := c.load()
		if err != nil {
			return err
		}
		m.Login = []string{cfg.Database.Login()}
	}
	fmt.Print(db.RolesSQL(m.Login...))
	return nil
}

// withDatabase calls f with the address of the configured database. With --private and none
// configured, it runs the private one until f returns.
func withDatabase(ctx context.Context, c *cli, f func(dsn string) error) error {
	cfg, log, err := c.load()
	if err != nil {
		return err
	}
	if cfg.Database.Embedded() && !c.Migrate.Private {
		return errors.New("no database is configured: set SKALD_DATABASE_URL, or the settings under database; " +
			"--private migrates the private PostgreSQL in " + cfg.Database.EmbeddedDir)
	}
	_, stop, err := app.PrivateDatabase(ctx, &cfg, log)
	if err != nil {
		return err
	}
	defer stop()
	dsn, err := app.DSN(ctx, cfg, log)
	if err == nil {
		err = app.RequireOwnSessions(ctx, cfg, dsn)
	}
	if err != nil {
		return err
	}
	return f(dsn)
}
