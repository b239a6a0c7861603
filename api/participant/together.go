package participant

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
)

// Open is like sql.Open for a PostgreSQL database, except that the store costs no extra round
// trips: its statements are sent together with BEGIN and COMMIT. It requires a driver that can send
// several statements in one message, such as lib/pq or pgx. Other transactions and other databases
// behave as with any *sql.DB.
func Open(driverName, dsn string) (*sql.DB, error) {
	db, err := sql.Open(driverName, dsn)
	if err != nil {
		return nil, err
	}
	d := db.Driver()
	if err := db.Close(); err != nil {
		return nil, err
	}
	if own, ok := d.(driver.DriverContext); ok {
		c, err := own.OpenConnector(dsn)
		if err != nil {
			return nil, err
		}
		return sql.OpenDB(Connector(c)), nil
	}
	return sql.OpenDB(Connector(byName{d, dsn})), nil
}

// Connector does for sql.OpenDB what Open does for sql.Open: it returns a connector that wraps the
// connections of c.
func Connector(c driver.Connector) driver.Connector { return connector{c} }

// byName adapts a driver that has no connectors.
type byName struct {
	driver driver.Driver
	dsn    string
}

func (b byName) Connect(context.Context) (driver.Conn, error) { return b.driver.Open(b.dsn) }
func (b byName) Driver() driver.Driver                        { return b.driver }

type connector struct{ driver.Connector }

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: inner}, nil
}

// Close implements io.Closer, for sql.DB.
func (c connector) Close() error {
	if inner, ok := c.Connector.(io.Closer); ok {
		return inner.Close()
	}
	return nil
}

// errand holds the statements that a store wants to send with BEGIN and with COMMIT. It is passed
// in the context of BeginTx, so that the transaction is an ordinary *sql.Tx.
type errand struct {
	prepare string // once per connection, before the other two
	begin   string
	taken   bool   // set by a connection that supports errands; otherwise rows and commit are unused
	rows    int64  // rows written by begin
	commit  string // "" if the transaction is not committed
}

type errandKey struct{}

// conn is a connection that supports errands.
type conn struct {
	driver.Conn
	prepared bool
}

// BeginTx implements driver.ConnBeginTx.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	e, found := ctx.Value(errandKey{}).(*errand)
	if _, execs := c.Conn.(driver.ExecerContext); found && execs {
		return c.begin(ctx, e)
	}
	if own, ok := c.Conn.(driver.ConnBeginTx); ok {
		return own.BeginTx(ctx, opts)
	}
	if opts != (driver.TxOptions{}) {
		return nil, errors.New("participant: the driver does not support transaction options")
	}
	return c.Begin() //nolint:staticcheck // the driver offers nothing else
}

// SQLSTATEs for a statement that is already prepared, and for one that is not.
const (
	duplicatePrepared = "42P05"
	unknownPrepared   = "26000"
)

// begin executes the first half of an errand.
func (c *conn) begin(ctx context.Context, e *errand) (driver.Tx, error) {
	known := c.prepared
	err := c.first(ctx, e)
	if known && sqlState(err) == unknownPrepared { // a pooler has switched sessions, or DISCARD ALL was sent
		c.prepared = false
		err = c.first(ctx, e)
	}
	if err != nil {
		return nil, err
	}
	e.taken = true
	return &tx{c, e}, nil
}

func (c *conn) first(ctx context.Context, e *errand) error {
	if !c.prepared {
		// Only this package uses these names, so a statement that already exists is the same one.
		if _, err := c.exec(ctx, e.prepare); err != nil && sqlState(err) != duplicatePrepared {
			return err
		}
		c.prepared = true
	}
	done, err := c.exec(ctx, "BEGIN; "+e.begin)
	if err == nil {
		e.rows, err = done.RowsAffected() // the result of the last statement
	}
	if err != nil {
		_, _ = c.exec(context.Background(), "ROLLBACK") // if this fails, the connection is broken and not used again
	}
	return err
}

func (c *conn) exec(ctx context.Context, query string) (driver.Result, error) {
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, nil)
}

// tx is the transaction of an errand.
type tx struct {
	c *conn
	e *errand
}

// Commit executes the second half. In a transaction that has already failed, the statement fails
// and nothing is committed.
func (t *tx) Commit() error {
	_, err := t.c.exec(context.Background(), t.e.commit+"; COMMIT")
	if err != nil {
		// The connection returns to the pool, so no transaction may stay open on it.
		return errors.Join(err, t.Rollback())
	}
	return nil
}

// Rollback implements driver.Tx.
func (t *tx) Rollback() error {
	_, err := t.c.exec(context.Background(), "ROLLBACK")
	return err
}

func sqlState(err error) string {
	var known interface{ SQLState() string }
	if errors.As(err, &known) {
		return known.SQLState()
	}
	return ""
}

var quoting = strings.NewReplacer(`\`, `\\`, `'`, `''`)

// quote returns a text as a literal that is valid whatever standard_conforming_strings is set to.
func quote(s string) string {
	return "E'" + quoting.Replace(s) + "'"
}

// The methods below delegate to the wrapped connection, because database/sql discovers its features
// through interfaces.

// ExecContext implements driver.ExecerContext.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if own, ok := c.Conn.(driver.ExecerContext); ok {
		return own.ExecContext(ctx, query, args)
	}
	return nil, driver.ErrSkip
}

// QueryContext implements driver.QueryerContext.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if own, ok := c.Conn.(driver.QueryerContext); ok {
		return own.QueryContext(ctx, query, args)
	}
	return nil, driver.ErrSkip
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if own, ok := c.Conn.(driver.ConnPrepareContext); ok {
		return own.PrepareContext(ctx, query)
	}
	return c.Prepare(query)
}

// CheckNamedValue implements driver.NamedValueChecker.
func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if own, ok := c.Conn.(driver.NamedValueChecker); ok {
		return own.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// Ping implements driver.Pinger.
func (c *conn) Ping(ctx context.Context) error {
	if own, ok := c.Conn.(driver.Pinger); ok {
		return own.Ping(ctx)
	}
	return nil
}

// ResetSession implements driver.SessionResetter.
func (c *conn) ResetSession(ctx context.Context) error {
	if own, ok := c.Conn.(driver.SessionResetter); ok {
		return own.ResetSession(ctx)
	}
	return nil
}

// IsValid implements driver.Validator.
func (c *conn) IsValid() bool {
	if own, ok := c.Conn.(driver.Validator); ok {
		return own.IsValid()
	}
	return true
}
