package postgres

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/fault"
)

// SQLSTATE codes appear in this file only.

// SQLState returns the SQLSTATE of an error that the server returned, "" for any other.
func SQLState(err error) string {
	var e *pq.Error
	if errors.As(err, &e) {
		return string(e.Code)
	}
	return ""
}

// Collided reports whether the server rolled back a transaction because it conflicted with another
// one; running it again may succeed.
func Collided(err error) bool {
	switch SQLState(err) {
	case "40001", "40P01", "55P03": // serialization, deadlock, lock_timeout
		return true
	}
	return false
}

// Exhausted returns which resource the server has run out of: disk, memory, connections or another
// limit; "" for other errors. The statement had no effect, and others may fail in the same way, so
// this counts as an outage.
func Exhausted(err error) string {
	switch s := SQLState(err); {
	case s == "53100":
		return "disk"
	case s == "53200":
		return "memory"
	case s == "53300":
		return "connections"
	case strings.HasPrefix(s, "53"):
		return "resources"
	}
	return ""
}

// Away reports whether the database is unreachable but may be available soon: no server answered,
// only standbys did, or the server is starting, stopping or out of connections. Definite answers do
// not count: a rejected login, a missing database, too few sessions of a pooler, PgBouncer's
// protocol violation (08P01), or a TLS alert.
func Away(err error) bool {
	switch s := SQLState(err); {
	case slices.Contains([]string{"08000", "08001", "08003", "08006", "57P01", "57P02", "57P03", "53300"}, s):
		return true
	case s != "":
		return false
	}
	var few *tooFewSessions
	if errors.As(err, &few) {
		return false
	}
	var alert *net.OpError // crypto/tls wraps the server's alert in this type
	if errors.As(err, &alert) && alert.Op == "remote error" {
		return false
	}
	var network net.Error // a *net.OpError, a *net.DNSError, or an exceeded deadline
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, driver.ErrBadConn) || standby(err)
}

// Passing reports whether the problem is temporary, so that the database may be usable later
// without changes to the configuration: it is unavailable, has run out of a resource, or accepts no
// writes.
func Passing(err error) bool { return Away(err) || Exhausted(err) != "" || serverReadOnly(err) }

// Trouble describes what is wrong with the database if a connection or a write fails with err; ""
// if the error does not point to the database. The text is public.
func Trouble(err error) string {
	switch s := SQLState(err); {
	case s == "53300":
		return "the database has no connection left (too many clients)"
	case Exhausted(err) != "":
		return "the database accepts no writes: it has run out of " + Exhausted(err)
	case serverReadOnly(err), errors.Is(err, errReadOnly):
		return "the database accepts no writes: it is read-only"
	case s == "57P03":
		return "the database is starting or stopping"
	case s != "" && !strings.HasPrefix(s, "08") && !strings.HasPrefix(s, "57P"):
		return ""
	case Late(err):
		return "the database does not answer"
	case standby(err):
		return "the database accepts no writes: it is read-only"
	case Away(err):
		return "the database cannot be reached"
	}
	return ""
}

// Late reports whether one of our own time limits passed without an answer.
func Late(err error) bool {
	var network net.Error // context.DeadlineExceeded is one, too
	return errors.As(err, &network) && network.Timeout()
}

// standby reports whether the driver rejected a server because it is a standby or read-only.
func standby(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "server is in hot standby mode") ||
		strings.Contains(err.Error(), "session is read-only"))
}

// tooFewSessions is the error for a pooler that has fewer sessions than a node needs.
type tooFewSessions struct{ error }

func (e *tooFewSessions) Unwrap() error { return e.error }

// stalePlan reports whether a prepared statement could not be run because a schema change has
// altered the type of its result. Another connection prepares it again.
func stalePlan(err error) bool {
	var e *pq.Error
	return errors.As(err, &e) && e.Code == "0A000" && e.Routine == "RevalidateCachedQuery"
}

// TimedOut reports whether the server ended a statement because of statement_timeout.
func TimedOut(err error) bool { return SQLState(err) == "57014" }

// DataError reports whether the server rejected the data of the statement. Nothing was written, and
// the other rows of a batch may still be valid. These are data exceptions (22), constraint
// violations (23) and program limits (54).
func DataError(err error) bool {
	s := SQLState(err)
	return strings.HasPrefix(s, "22") || strings.HasPrefix(s, "23") || strings.HasPrefix(s, "54")
}

// UniqueViolation is the SQLSTATE for a key that already exists.
const UniqueViolation = "23505"

// Violates reports whether err is a unique violation of the named constraint.
func Violates(err error, constraint string) bool {
	var e *pq.Error
	return errors.As(err, &e) && e.Code == UniqueViolation && e.Constraint == constraint
}

// serverReadOnly reports whether a write reached a server that accepts no writes: a standby, or a
// primary that was set to read-only.
func serverReadOnly(err error) bool { return SQLState(err) == "25006" }

// permissionDenied reports whether the session's role lacks the permission for the statement.
func permissionDenied(err error) bool { return SQLState(err) == "42501" }

// loginRefused reports whether the server rejected the login: the password is wrong, or the role
// does not exist or may not log in.
func loginRefused(err error) bool {
	s := SQLState(err)
	return s == "28P01" || s == "28000"
}

var errReadOnly = errors.New("the session is read-only")

// Wrap prefixes an error with the operation that failed, as in "list sagas: ...". Faults and
// nil are returned unchanged, so that the caller's answer to the client stays exact.
func Wrap(doing string, err error) error {
	if err == nil || fault.As(err) != nil {
		return err
	}
	return fmt.Errorf("%s: %w", doing, err)
}
