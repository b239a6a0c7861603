package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"

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
		fmt.Println(counted(n, "migration", "migrations"), "applied")
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
	Count int    `arg:"" optional:"" help:"Number of migrations to revert."`
	To    string `help:"Revert all migrations after this one, such as 0330: the newest migration of the release that you are going back to." placeholder:"NUMBER"`
}

func (m migrateDown) Run(ctx context.Context, c *cli) error {
	if (m.Count < 1) == (m.To == "") {
		return errors.New("give the number of migrations to revert, at least 1, or the migration to go back to with --to")
	}
	return withDatabase(ctx, c, func(dsn string) error {
		count := m.Count
		if m.To != "" {
			after, err := appliedAfter(ctx, dsn, m.To)
			if err != nil {
				return err
			}
			if count = after; count == 0 {
				fmt.Println("0 migrations reverted")
				return nil
			}
		}
		n, err := db.Down(app.Migrating(ctx, shell.Subject, "skald migrate down"), dsn, count)
		if err == nil {
			fmt.Println(counted(n, "migration", "migrations"), "reverted")
		}
		return err
	})
}

// appliedAfter counts the applied migrations after the one with the given number.
func appliedAfter(ctx context.Context, dsn, number string) (n int, err error) {
	err = connected(dsn, func(conn *sql.DB) error {
		list, err := db.Status(ctx, conn)
		found := false
		for _, m := range list {
			if found && !m.At.IsZero() {
				n++
			}
			found = found || strings.HasPrefix(m.ID, number+"_") && !m.At.IsZero()
		}
		if err == nil && !found {
			err = fmt.Errorf("migration %s is not applied: `skald migrate status` lists those that are", number)
		}
		return err
	})
	return n, err
}

// connected calls f with a connection pool of its own.
func connected(dsn string, f func(*sql.DB) error) error {
	conn, err := sql.Open("postgres", dsn)
	if err != nil {
		return err
	}
	defer conn.Close()
	return f(conn)
}

type migrateStatus struct{}

func (migrateStatus) Run(ctx context.Context, c *cli) error {
	return withDatabase(ctx, c, func(dsn string) error {
		return connected(dsn, func(conn *sql.DB) error { return printStatus(ctx, conn) })
	})
}

// printStatus prints the migrations and the extra indexes. Migrations that are pending or unknown are an error.
func printStatus(ctx context.Context, conn *sql.DB) error {
	list, err := db.Status(ctx, conn)
	pending := 0
	for _, m := range list {
		at := "not applied"
		if m.At.IsZero() {
			pending++
		} else {
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
	if err != nil {
		return err
	}
	fmt.Printf("%s applied, %d pending\n", counted(len(list)-pending, "migration", "migrations"), pending)
	floor, err := db.Floor(ctx, conn)
	if err != nil {
		return err
	}
	if floor > 0 {
		fmt.Printf("this schema supports programs whose newest migration is %04d or later; this program's newest is %04d\n",
			floor, db.Version())
	}
	if err := db.Usable(ctx, conn, list); err != nil {
		return err
	}
	if pending > 0 {
		return fmt.Errorf("%s pending: run `skald migrate up`", counted(pending, "migration is", "migrations are"))
	}
	return nil
}

type migrateRoles struct {
	Login []string `arg:"" optional:"" help:"Logins to make members of the roles: those that Skald uses, including the schema owner. Default: the configured login."`
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

// withDatabase calls f with the address of the configured database. With --private and no
// configured database, it runs the private one until f returns.
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
