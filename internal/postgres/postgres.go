// Package postgres is the toolkit for the stores on PostgreSQL, which are in the packages of their
// subjects (saga/sagadb, dlq/dlqdb, jobrun/jobdb and so on); it imports none of them. Read
// postgres.go (pools), tenant.go and tx.go (the tenant and role as which a statement runs),
// batch.go (prepared statements), then table.go and statement.go (one line per column).
//
// It opens five small pools. Two are for the API's work on behalf of one tenant and use a database
// role that sees only that tenant's rows: one for reads by key, and one for everything else. The
// pool for reads by key keeps all its connections open; otherwise bursts of such reads would
// constantly open and close connections, at ten times the cost of the reads. The other three use
// the engine's role, which sees all tenants. Writes of sagas use connections on which the planner
// may only choose nested loops over indexes: with default settings it chooses hash joins and scans
// while tables are small, and the cached plan stays as they grow (trap X46). Leases have their own
// connections, one for the engine's lease and one for the lease of the job run leader, so that they
// are renewed no matter how busy the other pools are (invariant F30).
//
// Files, each on top of those before it: errors, rows, lines, dial, commits, clock, reach,
// connector, heartbeat, postgres, columns, keyed, statement, table, sealed_tables, values, where,
// batch, condition, cover, deployment_secrets, listener, page, pooler, reseal, sealing, secrets,
// table_alike, table_columns, tenant, tx.
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

// Config configures the connection to PostgreSQL. DSN is required; zero durations and counts mean
// the defaults in the comments.
type Config struct {
	DSN              string
	MaxOpenConns     int           // 10; for all pools together, but at least as many as they need (11)
	MaxIdleConns     int           // 3; kept open for reads by key, if MaxOpenConns leaves room
	ConnMaxLifetime  time.Duration // 5 min
	StatementTimeout time.Duration // 30 s; enforced by the server; negative: the server's own setting applies
	IOTimeout        time.Duration // 60 s; the connection is closed after that much silence; must exceed StatementTimeout
	CountFor         time.Duration // 10 ms; limit for counting a list when no exact total was requested
	Application      string        // "skald"
	// Logins supplies the credentials of connections; nil means those in DSN.
	Logins credentials.Source
	// Unsecured leaves connections with the login's own rights, for a database without Skald's
	// roles. In that case, only WHERE tenant_id separates tenants.
	Unsecured bool
	// Encryption seals the content that clients and participants send (decision 0026). If nil,
	// nothing is sealed.
	Encryption *envelope.Keyring
	// Unreadable is called when the engine skips a saga because its sealed content cannot be
	// opened. The error does not show the content. Optional.
	Unreadable func(ctx context.Context, err error)
	// NewID generates IDs; nil means UUIDv7.
	NewID func() uuid.UUID
	Clock *Clock // corrected with the database's time; nil: the DB creates its own
	// Silent is called when a server has gone silent and all connections to it have been abandoned.
	// Optional.
	Silent func(server string, connections int)
}

// DB is an open database. Close it when its stores are no longer used.
type DB struct {
	point *sqlx.DB // one tenant's reads by key, prepared
	list  *sqlx.DB // one tenant's lists and registrations
	Read  *sqlx.DB // the engine's reads, reports, and maintenance
	Write *sqlx.DB // creates, changes, and claims
	Lease *sqlx.DB

	idle map[*sqlx.DB]int // number of connections that each pool keeps open
	// pooled is set if there is a pooler in between, such as PgBouncer in session mode
	// (RequireOwnSessions). It does not pass on the role that a connection names at startup, so
	// each transaction sets the role again.
	pooled   bool
	CountFor time.Duration
	Clock    *Clock
	Keys     *envelope.Keyring // nil: nothing is sealed
	// NewID generates the IDs of rows that stores create on their own: records of actions, and
	// events of groups of dead letters.
	NewID      func() uuid.UUID
	unreadable func(context.Context, error)
	dsn        string // for the listening connection, in combination with logins
	logins     credentials.Source
	statements sync.Map // maps statement to *sqlx.Stmt
	ordering   sync.Mutex
	order      []byte   // the secret of KeyDigest, guarded by ordering; nil: not read yet
	preparing  sync.Map // queries that are being prepared in the background
	lines      *lines
	stopBeats  context.CancelFunc
	beats      sync.WaitGroup
}

// The database roles that connections act as (docs/tenants.md).
const (
	appRole    = "saga_app_role"    // sees only the rows of the tenant in skald.tenant_id
	engineRole = "saga_engine_role" // sees all
)

// writers is the number of connections that write sagas: one per committer (creates, transitions)
// and one for claims.
const writers = 3

// leases is the number of connections that renew leases: one for the node's lease and one for the
// job run leader's, so that neither waits for the other.
const leases = 2

// shares divides the connections that are left after the writers and the leases.
func (c *Config) shares() (point, list, read int) {
	rest := max(6, c.MaxOpenConns-writers-leases)
	point = min(max(2, c.MaxIdleConns), rest-4)
	list = (rest - point) / 2
	return point, list, rest - point - list
}

// Open connects, and returns once the database has answered.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	cfg.setDefaults()
	base, err := pq.NewConfig(cfg.DSN)
	if err != nil {
		return nil, errAddress
	}
	db := &DB{
		idle: map[*sqlx.DB]int{}, CountFor: cfg.CountFor, Keys: cfg.Encryption, NewID: cfg.NewID, unreadable: cfg.Unreadable,
		dsn: cfg.DSN, logins: cfg.Logins, Clock: cfg.Clock, lines: newLines(cfg.Silent),
	}
	beating, stop := context.WithCancel(context.Background())
	db.stopBeats = stop
	var retired atomic.Int64
	points, lists, reads := cfg.shares()
	// Lists use an index to find a few rows, in memory or on an SSD. At the default cost of a
	// random page, the planner would first read two whole indexes in order to visit fewer rows.
	cheap := map[string]string{"random_page_cost": "1.1"}
	// No plan depends on the content of a batch, and planning the statement that creates sagas
	// takes as long as running it.
	planner := map[string]string{
		"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_seqscan": "off",
		"plan_cache_mode": "force_generic_plan",
	}
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
			// This is better than SET ROLE: no session state can get lost or be forgotten, and
			// RESET ALL returns to this role.
			set["role"] = p.role
		}
		maps.Copy(set, p.set)
		c := prepare(base.Clone(), cfg, db.lines, p.name, p.timeout, set)
		c.retired, c.once, c.prompt = &retired, p.pool == &db.Write, p.pool == &db.Lease
		c.config.BinaryParameters = p.pool == &db.Write // for BinaryColumn
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
	db.beats.Go(func() { db.heartbeat(beating) })
	return db, nil
}

func (c *Config) setDefaults() {
	if c.NewID == nil {
		c.NewID = func() uuid.UUID { return uuid.Must(uuid.NewV7()) }
	}
	if c.Clock == nil {
		c.Clock = NewClock(time.Now)
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

// prepare returns the connector of one pool.
func prepare(
	pc pq.Config,
	cfg Config,
	ls *lines,
	name string,
	timeout time.Duration,
	set map[string]string,
) *connector {
	pc.ApplicationName = cfg.Application + " " + name
	if pc.Runtime == nil {
		pc.Runtime = map[string]string{}
	}
	maps.Copy(pc.Runtime, set)
	ms := func(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }
	// A plan with a disabled node has an enormous cost, which triggers JIT. Compilation took half a
	// second, and our statements are short anyway.
	pc.Runtime["jit"] = "off"
	if timeout > 0 {
		pc.Runtime["statement_timeout"] = ms(timeout)
		pc.Runtime["lock_timeout"] = ms(timeout / 2)
		pc.Runtime["idle_in_transaction_session_timeout"] = ms(max(cfg.StatementTimeout, timeout))
	}
	d := dialer{
		Dialer: net.Dialer{KeepAlive: keepAlive}, io: max(cfg.IOTimeout, timeout+time.Second), lines: ls,
	}
	if timeout > 0 {
		d.due = timeout + time.Second
	}
	return &connector{
		config: pc, logins: cfg.Logins, lines: ls,
		dialer: d,
	}
}

func (db *DB) pools() []*sqlx.DB {
	return []*sqlx.DB{db.point, db.list, db.Read, db.Write, db.Lease}
}

// Ping returns nil if the database answers on every pool.
func (db *DB) Ping(ctx context.Context) error {
	pools := db.pools()
	errs := make([]error, len(pools))
	var all sync.WaitGroup
	for i, p := range pools {
		all.Go(func() { errs[i] = p.PingContext(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Refresh closes the idle connections. Call it after a login has been replaced:
// connections in use are closed after their use anyway, because their login is no
// longer current.
func (db *DB) Refresh() {
	for pool, keep := range db.idle {
		pool.SetMaxIdleConns(0)
		pool.SetMaxIdleConns(keep)
	}
}

// Close closes all connections.
func (db *DB) Close() {
	db.stopBeats()
	db.beats.Wait()
	for _, p := range db.pools() {
		if p != nil {
			p.Close()
		}
	}
}

// SQL returns the engine's pool for reads, which sees all tenants. It is used for statistics, for
// example.
func (db *DB) SQL() *sql.DB { return db.Read.DB }

// Points returns the pool of a tenant's reads by key.
func (db *DB) Points() *sql.DB { return db.point.DB }

// Lists returns the pool of a tenant's lists.
func (db *DB) Lists() *sql.DB { return db.list.DB }
