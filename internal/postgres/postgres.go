// Package postgres is the kit of the stores on PostgreSQL, which lie with their
// subjects (saga/sagadb, dlq/dlqdb, jobrun/jobdb and so on); it knows none of them.
// Read postgres.go (pools), tenant.go and tx.go (in whose name a statement runs), batch.go
// (prepared statements), then table.go and statement.go (one line for each column).
//
// It opens five small pools. Two are for what the API does in the name of one
// tenant, and act as a database role that sees one tenant's rows only: reads by
// key, in which every connection stays open, because a burst of them would
// otherwise open and close connections all the time, which cost ten times what
// the reads did; and everything else. The other three act as the engine's role,
// which sees all. Writes of sagas go through connections on which the planner
// may only choose nested loops over indexes: with default settings it picks
// hash joins and scans while tables are young, and the cached plan stays as
// they grow (trap X46). Leases have connections of their own, so that they are
// renewed however busy the others are (invariant F30): the engine's, and the one of
// who leads the job runs.
//
// Files, each on top of those before it: rows, columns, errors, dial, connector,
// postgres, statement, table, values, where, batch, listener, page, pooler, sealing,
// sealing_keys, secrets, table_alike, table_columns, tenant, tx.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/secret/credentials"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// Config says how to reach PostgreSQL. DSN is required; zero durations and
// counts mean the defaults in the comments.
type Config struct {
	DSN              string
	MaxOpenConns     int           // 10; of all pools together, but never fewer than they need (11)
	MaxIdleConns     int           // 3; kept open for reads by key, where MaxOpenConns leaves room
	ConnMaxLifetime  time.Duration // 5 min
	StatementTimeout time.Duration // 30 s; enforced by the server; negative: its own settings hold
	IOTimeout        time.Duration // 60 s; a silent peer ends the connection; must exceed StatementTimeout
	CountFor         time.Duration // 10 ms; what a list may spend on counting when nobody asked for an exact number
	Application      string        // "skald"
	// Logins says what connections sign in with; nil: what DSN says.
	Logins credentials.Source
	// Unsecured leaves connections with the login's own rights, for a database
	// without Skald's roles: then WHERE tenant_id alone separates tenants.
	Unsecured bool
	// Encryption seals what clients and participants say (decision 0026); nil: nothing is.
	Encryption *envelope.Keyring
	// Unreadable is told of sealed content that does not open, where the engine
	// leaves out a saga because of it. The error shows no content. Optional.
	Unreadable func(ctx context.Context, err error)
	// NewID makes ids; nil: UUIDv7.
	NewID func() uuid.UUID
}

// DB is an open database. Close it when nothing uses its stores any more.
type DB struct {
	point *sqlx.DB // one tenant's reads by key, prepared
	list  *sqlx.DB // one tenant's lists and registrations
	Read  *sqlx.DB // the engine's reads, reports, upkeep
	Write *sqlx.DB // creates, changes, claims
	Lease *sqlx.DB

	idle map[*sqlx.DB]int // how many connections each pool keeps
	// pooled: something in between, such as PgBouncer in session mode (RequireOwnSessions),
	// keeps the role to itself that a connection asks for at its start, so each
	// transaction asks again.
	pooled   bool
	CountFor time.Duration
	Keys     *envelope.Keyring // nil: nothing is sealed
	// NewID makes the ids of what only a store knows that it has to write: records of
	// actions, and events of groups of dead letters.
	NewID      func() uuid.UUID
	unreadable func(context.Context, error)
	dsn        string // for the connection that listens, with logins
	logins     credentials.Source
	statements sync.Map // statement → *sqlx.Stmt
	preparing  sync.Map // queries that are being prepared beside a transaction
}

// The database roles that connections act as (docs/tenants.md).
const (
	appRole    = "saga_app_role"    // sees the tenant of skald.tenant_id
	engineRole = "saga_engine_role" // sees all
)

// writers is how many connections write sagas: one committer per kind (creates,
// transitions) and one for claims.
const writers = 3

// leases is how many connections renew leases: of a node, and of the leader of
// the job runs. Neither ever waits for the other.
const leases = 2

// shares divides the connections that are neither the writers' nor the leases'.
func (c *Config) shares() (point, list, read int) {
	rest := max(6, c.MaxOpenConns-writers-leases)
	point = min(max(2, c.MaxIdleConns), rest-4)
	list = (rest - point) / 2
	return point, list, rest - point - list
}

// Open connects and returns once the database has answered.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	cfg.setDefaults()
	base, err := pq.NewConfig(cfg.DSN)
	if err != nil {
		return nil, errAddress
	}
	db := &DB{
		idle: map[*sqlx.DB]int{}, CountFor: cfg.CountFor, Keys: cfg.Encryption, NewID: cfg.NewID, unreadable: cfg.Unreadable,
		dsn: cfg.DSN, logins: cfg.Logins,
	}
	var retired atomic.Int64
	points, lists, reads := cfg.shares()
	// Lists find a few rows by an index, in memory or on an SSD. At the default
	// price of a random page the planner rather reads two whole indexes first,
	// to visit fewer.
	cheap := map[string]string{"random_page_cost": "1.1"}
	planner := map[string]string{"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_seqscan": "off"}
	for _, p := range []struct {
		pool    **sqlx.DB
		name    string
		role    string
		open    int
		timeout time.Duration
		set     map[string]string
	}{
		{&db.point, "reader", appRole, points, cfg.StatementTimeout, nil},
		{&db.list, "api", appRole, lists, cfg.StatementTimeout, cheap},
		{&db.Read, "upkeep", engineRole, reads, cfg.StatementTimeout, cheap},
		{&db.Write, "writer", engineRole, writers, cfg.StatementTimeout, planner},
		{&db.Lease, "lease", engineRole, leases, 2 * time.Second, nil},
	} {
		set := map[string]string{}
		if !cfg.Unsecured {
			// Not SET ROLE: there is no session state that could be lost or forgotten,
			// and RESET ALL leads back to this role.
			set["role"] = p.role
		}
		maps.Copy(set, p.set)
		c := prepare(base.Clone(), cfg, p.name, p.timeout, set)
		c.retired, c.once = &retired, p.pool == &db.Write
		c.config.BinaryParameters = p.pool == &db.Write // for column
		*p.pool = sqlx.NewDb(sql.OpenDB(c), "postgres")
		db.idle[*p.pool] = p.open
		(*p.pool).SetMaxOpenConns(p.open)
		(*p.pool).SetMaxIdleConns(p.open)
		(*p.pool).SetConnMaxLifetime(cfg.ConnMaxLifetime)
	}
	db.list.SetConnMaxIdleTime(time.Minute)
	db.Read.SetConnMaxIdleTime(time.Minute)
	err = db.Ping(ctx)
	if err == nil && !cfg.Unsecured {
		err = db.point.GetContext(ctx, &db.pooled, `SELECT current_user <> $1`, appRole)
	}
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return db, nil
}

func (c *Config) setDefaults() {
	if c.NewID == nil {
		c.NewID = func() uuid.UUID { return uuid.Must(uuid.NewV7()) }
	}
	orInt := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	orDur := func(v *time.Duration, def time.Duration) {
		if *v == 0 {
			*v = def
		}
	}
	orInt(&c.MaxOpenConns, 10)
	orInt(&c.MaxIdleConns, 3)
	orDur(&c.ConnMaxLifetime, 5*time.Minute)
	orDur(&c.StatementTimeout, 30*time.Second)
	orDur(&c.IOTimeout, 60*time.Second)
	orDur(&c.CountFor, 10*time.Millisecond)
	if c.Application == "" {
		c.Application = "skald"
	}
	if c.Unreadable == nil {
		c.Unreadable = func(context.Context, error) {}
	}
	if c.Logins == nil {
		c.Logins = credentials.Fixed{}
	}
}

// prepare makes what opens the connections of one pool.
func prepare(pc pq.Config, cfg Config, name string, timeout time.Duration, set map[string]string) *connector {
	pc.ApplicationName = cfg.Application + " " + name
	if pc.Runtime == nil {
		pc.Runtime = map[string]string{}
	}
	maps.Copy(pc.Runtime, set)
	ms := func(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }
	// A plan with a disabled node looks infinitely dear, and compiling it took
	// half a second; our statements are short anyhow.
	pc.Runtime["jit"] = "off"
	if timeout > 0 {
		pc.Runtime["statement_timeout"] = ms(timeout)
		pc.Runtime["lock_timeout"] = ms(timeout / 2)
		pc.Runtime["idle_in_transaction_session_timeout"] = ms(max(cfg.StatementTimeout, timeout))
	}
	return &connector{
		config: pc, logins: cfg.Logins,
		dialer: dialer{net.Dialer{KeepAlive: 15 * time.Second}, max(cfg.IOTimeout, timeout+time.Second)},
	}
}

func (db *DB) pools() []*sqlx.DB {
	return []*sqlx.DB{db.point, db.list, db.Read, db.Write, db.Lease}
}

// Ping returns nil when the database answers on every pool.
func (db *DB) Ping(ctx context.Context) error {
	var errs []error
	for _, p := range db.pools() {
		errs = append(errs, p.PingContext(ctx))
	}
	return errors.Join(errs...)
}

// Refresh closes the connections that nobody uses at this moment. It is for a
// login that has been replaced: those in use are closed after their use, because
// their login is not current any more.
func (db *DB) Refresh() {
	for pool, keep := range db.idle {
		pool.SetMaxIdleConns(0)
		pool.SetMaxIdleConns(keep)
	}
}

// Close closes all connections.
func (db *DB) Close() {
	for _, p := range db.pools() {
		if p != nil {
			p.Close()
		}
	}
}

// SQL returns the engine's pool for reads, which sees all tenants: for
// statistics and the like.
func (db *DB) SQL() *sql.DB { return db.Read.DB }

// Points returns the pool of a tenant's reads by key.
func (db *DB) Points() *sql.DB { return db.point.DB }

// Lists returns the pool of a tenant's lists.
func (db *DB) Lists() *sql.DB { return db.list.DB }
