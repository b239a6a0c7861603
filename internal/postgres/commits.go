package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/lib/pq"
)

// A primary with a synchronous standby commits locally and then waits for the standby. If the wait
// is canceled, the primary answers COMMIT with success and a warning: the rows exist and are
// visible, but are lost if the standby takes over. So Skald never cancels a commit, and if another
// session cancels the wait, the outcome of the commit is unknown (invariant F63, decision 0066).

// errUnconfirmed is the error for a commit that PostgreSQL answered with a warning.
var errUnconfirmed = errors.New("PostgreSQL stopped waiting for its synchronous standby: the transaction " +
	"is committed on the primary and may be missing on the standby, so its outcome is unknown")

// errLost is the error for a statement whose connection was lost while it ran.
var errLost = errors.New("the connection was lost during the statement; whether it was carried out is unknown")

// commits tracks the state of a connection's current transaction, and the warnings that the
// server sent during the current statement.
type commits struct {
	inTx                  bool
	warned, notReplicated bool
}

// sayWarnings is run on each new connection, because a role or a database may be configured to
// suppress warnings. If it were a startup parameter, every PgBouncer would have to allow it.
const sayWarnings = `SET client_min_messages = warning`

// heard handles a notice, which is a server message that is not an error.
func (c *commits) heard(notice *pq.Error) {
	if notice.Code.Class() == "01" {
		c.warned = true
		// Other notices may come from the statement itself or from auto_explain, for example.
		c.notReplicated = c.notReplicated || notice.Routine == "SyncRepWaitForLSN"
	}
}

// begin prepares for a statement and returns the context to run it with. A statement that writes
// outside a transaction commits implicitly, so its context is never canceled; the server's timeouts
// limit it.
func (c *commits) begin(ctx context.Context, writes bool) context.Context {
	c.warned, c.notReplicated = false, false
	if writes && !c.inTx {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// writes reports whether a statement changes rows.
func writes(statement string) bool {
	for _, word := range []string{"INSERT INTO ", "UPDATE ", "DELETE FROM "} {
		if strings.Contains(statement, word) {
			return true
		}
	}
	return false
}

// tx is a transaction on a connection.
type tx struct {
	driver.Tx
	of   *commits
	ctx  context.Context // context of the transaction
	line *line
}

// Commit implements driver.Tx.
func (t *tx) Commit() error {
	*t.of = commits{}
	defer t.line.until(t.ctx, grace, false)()
	err := t.Tx.Commit()
	switch {
	case err == nil && t.of.warned:
		return errUnconfirmed
	case errors.Is(err, driver.ErrBadConn):
		return errLost
	}
	return err
}

// Rollback implements driver.Tx.
func (t *tx) Rollback() error {
	*t.of = commits{}
	defer t.line.until(t.ctx, grace, false)()
	return t.Tx.Rollback()
}

// pqRows lists the interfaces of the rows of lib/pq that database/sql uses.
type pqRows interface {
	driver.RowsNextResultSet
	driver.RowsColumnTypeScanType
	driver.RowsColumnTypeDatabaseTypeName
	driver.RowsColumnTypeLength
	driver.RowsColumnTypePrecisionScale
}

// rows are the rows of a statement. A statement outside a transaction commits after the last row.
type rows struct {
	pqRows
	of    *commits
	ended func() // called when the rows are closed
}

func (c *commits) rows(r driver.Rows, ended func()) (driver.Rows, error) {
	full, ok := r.(pqRows)
	if !ok {
		ended()
		return nil, fmt.Errorf("the driver's %T lacks methods", r)
	}
	return &rows{full, c, ended}, nil
}

// Next implements driver.Rows.
func (r *rows) Next(dest []driver.Value) error {
	err := r.pqRows.Next(dest)
	if errors.Is(err, io.EOF) && r.of.notReplicated {
		return errUnconfirmed
	}
	return err
}

// Close implements driver.Rows.
func (r *rows) Close() error {
	defer r.ended()
	err := r.pqRows.Close()
	if err == nil && r.of.notReplicated {
		return errUnconfirmed
	}
	return err
}
