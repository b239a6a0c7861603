package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/postgres/devpg"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// openDatabase connects to the database in cfg with the logins that from supplies, or starts the
// private database. It then migrates the schema or checks that it is current. lost is closed when
// the private database exits unexpectedly, and is nil without a private database. stop stops
// everything that was started.
func openDatabase(
	ctx context.Context,
	cfg *config.Config,
	from *logins,
	clock *postgres.Clock,
	log *slog.Logger,
) (d *postgres.DB, lost <-chan struct{}, stop func(), err error) {
	private := cfg.Database.Embedded()
	lost, stopPrivate, err := PrivateDatabase(ctx, cfg, log)
	if err != nil {
		return nil, nil, nil, err
	}
	if d, err = connect(ctx, cfg, from, clock, log); err != nil {
		stopPrivate()
		return nil, nil, nil, postgres.ExplainRefusal(err)
	}
	if err := trusted(ctx, d, cfg.App.Environment == config.Prod, private, log); err != nil {
		d.Close()
		stopPrivate()
		return nil, nil, nil, err
	}
	from.changed(d.Refresh)
	return d, lost, func() { d.Close(); stopPrivate() }, nil
}

// PrivateDatabase starts the private PostgreSQL if cfg names no database, and sets its address in
// cfg. lost is closed when the private database exits; it is nil if none was started, or if another
// process owns it. stop is nil only after an error.
func PrivateDatabase(
	ctx context.Context,
	cfg *config.Config,
	log *slog.Logger,
) (lost <-chan struct{}, stop func(), err error) {
	if !cfg.Database.Embedded() {
		return nil, func() {}, nil
	}
	s, err := devpg.Start(ctx, devpg.Config{Dir: cfg.Database.EmbeddedDir, Bin: cfg.Database.EmbeddedBin, Log: log})
	if err != nil {
		return nil, nil, err
	}
	cfg.Database.URL = config.Secret(s.DSN(devpg.Database))
	log.Warn(
		"using a private PostgreSQL; for production set SKALD_DATABASE_URL",
		slog.String("dir", s.Dir()),
		slog.Int("port", s.Port()),
	)
	return s.Done(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			log.Warn("the private PostgreSQL did not stop cleanly", slog.Any("error", err))
		}
	}, nil
}

func connect(
	ctx context.Context,
	cfg *config.Config,
	from *logins,
	clock *postgres.Clock,
	log *slog.Logger,
) (*postgres.DB, error) {
	c := cfg.Database
	dsn, err := from.dsn(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := postgres.RequireOwnSessions(ctx, postgres.Config{DSN: dsn, IOTimeout: c.IOTimeout,
		Application: cfg.App.Name}); err != nil {
		return nil, err
	}
	if c.AutoMigrate {
		n, err := db.Up(ctx, dsn)
		if err != nil {
			return nil, fmt.Errorf("migrate the database: %w", err)
		}
		if n > 0 {
			log.Info("database migrated", slog.Int("migrations", n))
		}
	}
	unsecured, err := accept(ctx, cfg, dsn, log)
	if err != nil {
		return nil, err
	}
	statements := c.StatementTimeout
	if statements == 0 {
		statements = -1 // 0 would be the default of package postgres
	}
	keys, err := keyring(cfg.Encryption)
	if err != nil {
		return nil, err
	}
	var told loop.Complaints
	return postgres.Open(ctx, postgres.Config{
		DSN: c.DSN(), MaxOpenConns: c.MaxOpenConns, MaxIdleConns: c.MaxIdleConns,
		ConnMaxLifetime: from.lifetime(c.ConnMaxLifetime), Logins: from.Source, Unsecured: unsecured,
		StatementTimeout: statements, IOTimeout: c.IOTimeout, Application: cfg.App.Name,
		Silent: func(server string, connections int) {
			log.Warn("the database server does not respond: all connections to it are closed",
				slog.String("server", server), slog.Int("connections", connections))
		},
		Encryption: keys, NewID: newID, Clock: clock, Unreadable: func(ctx context.Context, err error) {
			if told.Due(err.Error(), time.Now()) {
				log.ErrorContext(ctx, "skipping a row: its content cannot be read", slog.Any("error", err))
			}
		},
	})
}

// accept checks that the schema is current and that row-level security is in place. Without
// row-level security, prod does not start; other environments log a warning and rely only on the
// WHERE clause of every statement.
func accept(ctx context.Context, cfg *config.Config, dsn string, log *slog.Logger) (unsecured bool, err error) {
	var changed *db.Changed
	switch err := db.Current(ctx, dsn); {
	case errors.As(err, &changed) && cfg.App.Environment != config.Prod:
		log.Warn("the schema may differ from what this binary expects; prod would not start", slog.Any("error", err))
	case err != nil:
		return false, err
	}
	err = db.Secured(ctx, dsn)
	var insecure *db.Insecure
	if !errors.As(err, &insecure) {
		return false, err
	}
	if cfg.App.Environment == config.Prod {
		return false, err
	}
	log.Warn("tenants are separated by WHERE alone: row-level security is not in place; prod would not start",
		slog.String("problem", insecure.Error()))
	return true, nil
}

// keyring returns the keys that seal content; nil means that content is not sealed.
func keyring(c config.Encryption) (*envelope.Keyring, error) {
	keys, err := envelope.Parse(string(c.Keys))
	if err != nil { // only if the Config did not come from Load
		return nil, fmt.Errorf("encryption.keys: %w", err)
	}
	if !c.Seal {
		keys = keys.OpenOnly()
	}
	return keys, nil
}

// conditionOf queries the state of a database. If a newer program has migrated the database, it
// also queries which programs can use the schema: the answer may change while this program runs.
func conditionOf(d *postgres.DB) func(context.Context) (postgres.Condition, error) {
	return func(ctx context.Context) (postgres.Condition, error) {
		c, err := d.Condition(ctx)
		if err != nil || c.Schema <= db.Version() {
			return c, err
		}
		c.Floor, err = db.Floor(ctx, d.Read)
		return c, err
	}
}

// trusted returns an error in production if the database is not safe enough for sagas; in other
// environments it logs a warning. The private database may have its superuser as the only login.
func trusted(ctx context.Context, d *postgres.DB, prod, private bool, log *slog.Logger) error {
	c, err := d.Condition(ctx)
	if err != nil {
		return err
	}
	c.Superuser = c.Superuser && !private
	warnings := c.Warnings()
	if prod && len(warnings) > 0 {
		return errors.New("prod does not start with this database: " + strings.Join(warnings, "; "))
	}
	for _, w := range warnings {
		log.Warn("prod would not start with this database", slog.String("problem", w))
	}
	return nil
}
