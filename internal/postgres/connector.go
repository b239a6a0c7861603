package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/secret/credentials"
)

// connector makes the connections of one pool. Each connection signs in with the login that the
// source returns at that moment. After the login has been replaced, or when the server is no longer
// the primary, the connection is closed after its current use.
type connector struct {
	config  pq.Config
	dialer  dialer
	logins  credentials.Source
	lines   *lines        // shared by all pools
	retired *atomic.Int64 // shared by all pools: connections with a lower number are closed after use
	// once is for statements that must not run twice: if the connection fails during such a
	// statement, the caller gets the error, and database/sql does not repeat the statement.
	once bool
	// prompt is for statements that end with their context even while they commit. A lease renewal
	// without a timely answer does not count, no matter whether it was committed.
	prompt bool
}

// Driver implements driver.Connector.
func (c *connector) Driver() driver.Driver { return pq.Driver{} }

// Connect implements driver.Connector. If the server rejects the login, Connect asks the source for
// a newer one and, if there is one, tries it at once.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	login, err := c.logins.Login(ctx, credentials.Login{})
	if err != nil {
		return nil, err
	}
	retired := c.retired.Load() // must be read before the server is chosen
	raw, at, err := c.connect(ctx, login)
	if loginRefused(err) {
		newer, e := c.logins.Login(ctx, login)
		if e == nil && newer != login {
			login = newer
			raw, at, err = c.connect(ctx, login)
		}
	}
	if err != nil {
		return nil, err
	}
	made := &conn{pqConn: raw, of: c, login: login, retired: retired, line: at, socket: newProbe(at.Conn)}
	if c.config.Runtime != nil { // nil for RequireOwnSessions, which must not change any setting
		if _, err := made.ExecContext(ctx, sayWarnings, nil); err != nil {
			_ = raw.Close()
			return nil, err
		}
	}
	pq.SetNoticeHandler(raw, made.commits.heard)
	return made, nil
}

func (c *connector) connect(ctx context.Context, l credentials.Login) (pqConn, *line, error) {
	config := c.config.Clone()
	if l.User != "" {
		config.User = l.User
	}
	if l.Password != "" {
		config.Password = l.Password
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectAlone
		if len(config.Multi) > 0 {
			config.ConnectTimeout = connectWithin
		}
	}
	s, err := reach(ctx, c.lines, hosts(config), c.attempt)
	return s.pqConn, s.line, err
}

// session is a driver connection and the network connection underneath.
type session struct {
	pqConn
	line *line
}

// attempt sets up a session with one server, within its connect timeout and ctx.
func (c *connector) attempt(ctx context.Context, host pq.Config) (session, error) {
	ctx, cancel := context.WithTimeout(ctx, host.ConnectTimeout)
	defer cancel()
	made, err := pq.NewConnectorConfig(host)
	if err != nil {
		return session{}, errAddress
	}
	d := &remembering{dialer: c.dialer, attempt: ctx}
	made.Dialer(d)
	stop := context.AfterFunc(ctx, d.abandon)
	raw, err := made.Connect(ctx)
	stop()
	if err != nil {
		return session{}, err
	}
	full, ok := raw.(pqConn)
	if !ok {
		_ = raw.Close()
		return session{}, fmt.Errorf("the driver's %T lacks methods", raw)
	}
	return session{full, d.complete()}, nil
}

// pqConn lists the interfaces of a lib/pq connection that database/sql uses.
type pqConn interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.QueryerContext
	driver.ExecerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
	driver.NamedValueChecker
}

// conn is a connection that tracks whether it may be reused. database/sql never uses a connection
// from two goroutines at once.
type conn struct {
	pqConn
	of      *connector
	login   credentials.Login
	retired int64 // value of connector.retired when the connection was made
	line    *line
	socket  probe
	spent   bool
	commits commits
}

// IsValid reports, after each use, whether the connection is kept.
func (c *conn) IsValid() bool {
	return !c.spent && !c.line.givenUp() && c.retired >= c.of.retired.Load() &&
		c.of.logins.Current(c.login) && c.pqConn.IsValid()
}

// ResetSession is called before each use except the first. It checks the socket, so that a
// connection closed by the server is detected before a statement is sent whose outcome would be
// unknown.
func (c *conn) ResetSession(ctx context.Context) error {
	if !c.IsValid() || !c.socket.quiet() {
		c.spent = true
		return driver.ErrBadConn
	}
	return c.pqConn.ResetSession(ctx)
}

// judge decides from a statement's error whether to keep the connection, and returns the error for
// the caller. alive is whether the connection was usable before.
func (c *conn) judge(err error, alive bool) error {
	switch {
	case err == nil && c.commits.notReplicated:
		return errUnconfirmed
	case err == nil:
		return nil
	case serverReadOnly(err):
		// The primary has become a standby, and all other connections go to it as well.
		c.spent = true
		c.of.retired.CompareAndSwap(c.retired, c.retired+1)
		return &repeatable{err}
	case stalePlan(err):
		c.spent = true // and with the connection, its prepared statements
		return &repeatable{err}
	case permissionDenied(err) && c.mayChange():
		// This is the message that PostgreSQL sends to sessions whose role was dropped.
		c.spent = true
		return &repeatable{err}
	case c.of.once && alive && errors.Is(err, driver.ErrBadConn):
		c.spent = true
		return errLost
	}
	return err
}

func (c *conn) mayChange() bool {
	_, fixed := c.of.logins.(credentials.Fixed)
	return !fixed
}

// repeatable is the error for a statement that certainly had no effect. Unless it was in a
// transaction, database/sql repeats the statement on another connection.
type repeatable struct{ cause error }

func (e *repeatable) Error() string        { return e.cause.Error() }
func (e *repeatable) Unwrap() error        { return e.cause }
func (e *repeatable) Is(target error) bool { return target == driver.ErrBadConn }

// BeginTx implements driver.ConnBeginTx. It does not pass ctx to the driver, which would watch it
// until the end of the transaction and cancel even COMMIT. Statements have contexts of their own,
// and if ctx ends before COMMIT, database/sql rolls back.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	defer c.line.until(ctx, grace, false)()
	begun, err := c.pqConn.BeginTx(context.WithoutCancel(ctx), opts)
	if err != nil {
		return nil, err
	}
	c.commits.inTx = true
	return &tx{begun, &c.commits, ctx, c.line}, nil
}

// begin returns the context to run a statement with, and a function to call when the statement has ended.
func (c *conn) begin(ctx context.Context, writes bool) (run context.Context, ended func()) {
	run = c.commits.begin(ctx, writes && !c.of.prompt)
	return run, c.line.until(ctx, grace, run.Done() != nil)
}

func (c *conn) rows(r driver.Rows, err error, alive bool, ended func()) (driver.Rows, error) {
	if err = c.judge(err, alive); err != nil {
		ended()
		return nil, err
	}
	return c.commits.rows(r, ended)
}

// Ping implements driver.Pinger.
func (c *conn) Ping(ctx context.Context) error {
	defer c.line.until(ctx, grace, true)()
	return c.pqConn.Ping(ctx)
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	defer c.line.until(ctx, grace, true)()
	s, err := c.pqConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, c.judge(err, false)
	}
	full, ok := s.(pqStmt)
	if !ok {
		return nil, fmt.Errorf("the driver's %T lacks methods", s)
	}
	return &stmt{full, c, writes(query)}, nil
}

// QueryContext implements driver.QueryerContext.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	alive := c.pqConn.IsValid()
	run, ended := c.begin(ctx, writes(query))
	r, err := c.pqConn.QueryContext(run, query, args)
	return c.rows(r, err, alive, ended)
}

// ExecContext implements driver.ExecerContext.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	alive := c.pqConn.IsValid()
	run, ended := c.begin(ctx, writes(query))
	defer ended()
	result, err := c.pqConn.ExecContext(run, query, args)
	return result, c.judge(err, alive)
}

type pqStmt interface {
	driver.Stmt
	driver.StmtQueryContext
	driver.StmtExecContext
}

type stmt struct {
	pqStmt
	c      *conn
	writes bool
}

// QueryContext implements driver.StmtQueryContext.
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	alive := s.c.pqConn.IsValid()
	run, ended := s.c.begin(ctx, s.writes)
	r, err := s.pqStmt.QueryContext(run, args)
	return s.c.rows(r, err, alive, ended)
}

// ExecContext implements driver.StmtExecContext.
func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	alive := s.c.pqConn.IsValid()
	run, ended := s.c.begin(ctx, s.writes)
	defer ended()
	result, err := s.pqStmt.ExecContext(run, args)
	return result, s.c.judge(err, alive)
}

// errAddress does not wrap its cause, which would quote the address including the password.
var errAddress = errors.New("the database address is neither a postgres:// URL nor a list of keyword=value pairs")
