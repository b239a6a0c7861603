// Package postgres holds every SQL statement: the stores of the rulebooks on
// PostgreSQL, one file per subject and verb.
//
// It opens four small pools. Reads by key have one in which every connection
// stays open: a burst of them would otherwise open and close connections all
// the time, which cost ten times what the reads did. Writes of sagas go through connections on which
// the planner may only choose nested loops over indexes: with default settings
// it picks hash joins and scans while tables are young, and the cached plan
// stays as they grow (trap X46). Leases have a connection of their own, so
// that they are renewed however busy the others are (invariant F30).
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// Config says how to reach PostgreSQL. DSN is required; zero durations and
// counts mean the defaults in the comments.
type Config struct {
	DSN              string
	MaxOpenConns     int           // 10; of all pools together, but never fewer than they need (8)
	MaxIdleConns     int           // 3; kept open for reads by key
	ConnMaxLifetime  time.Duration // 5 min
	StatementTimeout time.Duration // 30 s; enforced by the server
	IOTimeout        time.Duration // 60 s; a silent peer ends the connection; must exceed StatementTimeout
	CountFor         time.Duration // 10 ms; what a list may spend on counting when nobody asked for an exact number
	Application      string        // "skald"
}

// DB is an open database. Close it when nothing uses its stores any more.
type DB struct {
	read  *sqlx.DB // lists, reports, upkeep, registrations
	point *sqlx.DB // reads by key, prepared
	write *sqlx.DB // creates, changes, claims
	lease *sqlx.DB

	countFor   time.Duration
	statements sync.Map // statement → *sqlx.Stmt
}

// errAddress has no cause: that would cite the address, and in it the password.
var errAddress = errors.New("the database address is neither a postgres:// URL nor a list of keyword=value")

// writers is how many connections write sagas: one committer per kind (creates,
// transitions) and one for claims.
const writers = 3

// Open connects and returns once the database has answered.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	cfg.setDefaults()
	base, err := pq.NewConfig(cfg.DSN)
	if err != nil {
		return nil, errAddress
	}
	db := &DB{countFor: cfg.CountFor}
	points := max(2, cfg.MaxIdleConns)
	// Lists find a few rows by an index, in memory or on an SSD. At the default
	// price of a random page the planner rather reads two whole indexes first,
	// to visit fewer.
	lists := map[string]string{"random_page_cost": "1.1"}
	planner := map[string]string{"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_seqscan": "off"}
	for _, p := range []struct {
		pool    **sqlx.DB
		role    string
		open    int
		timeout time.Duration
		set     map[string]string
	}{
		{&db.read, "api", max(2, cfg.MaxOpenConns-points-writers-1), cfg.StatementTimeout, lists},
		{&db.point, "reader", points, cfg.StatementTimeout, nil},
		{&db.write, "writer", writers, cfg.StatementTimeout, planner},
		{&db.lease, "lease", 1, 2 * time.Second, nil},
	} {
		*p.pool, err = open(base.Clone(), cfg, p.role, p.timeout, p.set)
		if err != nil {
			db.Close()
			return nil, err
		}
		(*p.pool).SetMaxOpenConns(p.open)
		(*p.pool).SetMaxIdleConns(p.open)
		(*p.pool).SetConnMaxLifetime(cfg.ConnMaxLifetime)
	}
	db.read.SetConnMaxIdleTime(time.Minute)
	if err := db.Ping(ctx); err != nil {
		db.Close()
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return db, nil
}

func (c *Config) setDefaults() {
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
}

func open(pc pq.Config, cfg Config, role string, timeout time.Duration, set map[string]string) (*sqlx.DB, error) {
	pc.ApplicationName = cfg.Application + " " + role
	if pc.Runtime == nil {
		pc.Runtime = map[string]string{}
	}
	maps.Copy(pc.Runtime, set)
	ms := func(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }
	// A plan with a disabled node looks infinitely dear, and compiling it took
	// half a second; our statements are short anyhow.
	pc.Runtime["jit"] = "off"
	pc.Runtime["statement_timeout"] = ms(timeout)
	pc.Runtime["lock_timeout"] = ms(timeout / 2)
	pc.Runtime["idle_in_transaction_session_timeout"] = ms(cfg.StatementTimeout)
	connector, err := pq.NewConnectorConfig(pc)
	if err != nil {
		return nil, errAddress
	}
	connector.Dialer(dialer{net.Dialer{KeepAlive: 15 * time.Second}, max(cfg.IOTimeout, timeout+time.Second)})
	return sqlx.NewDb(sql.OpenDB(connector), "postgres"), nil
}

// Ping returns nil when the database answers on every pool.
func (db *DB) Ping(ctx context.Context) error {
	return errors.Join(db.read.PingContext(ctx), db.point.PingContext(ctx), db.write.PingContext(ctx), db.lease.PingContext(ctx))
}

// Close closes all connections.
func (db *DB) Close() {
	for _, p := range []*sqlx.DB{db.read, db.point, db.write, db.lease} {
		if p != nil {
			p.Close()
		}
	}
}

// SQL returns the pool of the API's reads, for the schema check and statistics.
func (db *DB) SQL() *sql.DB { return db.read.DB }

// dialer gives every read and write of a connection a deadline. Bare lib/pq
// waits for ever when the peer goes silent, whatever the context says.
type dialer struct {
	net.Dialer
	io time.Duration
}

func (d dialer) Dial(network, addr string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, addr)
}

func (d dialer) DialTimeout(network, addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, addr)
}

func (d dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := d.Dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &deadlineConn{c, d.io}, nil
}

type deadlineConn struct {
	net.Conn
	io time.Duration
}

func (c *deadlineConn) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.io)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c *deadlineConn) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.io)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
