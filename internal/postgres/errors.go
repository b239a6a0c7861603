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

// Collided reports whether the server rolled a transaction back because it conflicted
// with another one: running it again may succeed.
func Collided(err error) bool {
	switch SQLState(err) {
	case "40001", "40P01", "55P03": // serialization, deadlock, lock_timeout
		return true
	}
	return false
}

// Exhausted returns what the server has run out of: disk, memory, connections or another of its
// limits; "" for other errors. The statement had no effect, and others may fail in the same
// way, so it counts as an outage.
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

// Away reports whether no server answered, or only standbys, or one that is starting, stopping or
// has no connection to spare: it may be available in a moment. A refused login, a missing database,
// too few sessions of a pooler, PgBouncer's protocol violation (08P01) or a TLS alert is an answer.
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
	var alert *net.OpError // crypto/tls wraps an alert of the server in one
	if errors.As(err, &alert) && alert.Op == "remote error" {
		return false
	}
	var network net.Error // a *net.OpError or *net.DNSError, or a deadline that has passed
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, driver.ErrBadConn) || standby(err)
}

// Passing reports whether the database may be usable later as it is configured: it is unavailable, has run out of
// something, or accepts no writes.
func Passing(err error) bool { return Away(err) || Exhausted(err) != "" || serverReadOnly(err) }

// Trouble says in words what is wrong with the database when a connection to it or a write fails
// with err; "" if the error shows nothing of that kind. The words are public.
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

// Late reports whether a time limit of ours has passed without an answer.
func Late(err error) bool {
	var network net.Error // context.DeadlineExceeded is one as well
	return errors.As(err, &network) && network.Timeout()
}

// standby reports whether the driver has refused a server because it is a standby, or read-only.
func standby(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "server is in hot standby mode") ||
		strings.Contains(err.Error(), "session is read-only"))
}

// tooFewSessions is the error of a pooler that has fewer sessions than a node needs.
type tooFewSessions struct{ error }

func (e *tooFewSessions) Unwrap() error { return e.error }

// stalePlan reports whether a prepared statement could not be run because the schema has
// changed the type of its result since. On another connection it is prepared again.
func stalePlan(err error) bool {
	var e *pq.Error
	return errors.As(err, &e) && e.Code == "0A000" && e.Routine == "RevalidateCachedQuery"
}

// TimedOut reports whether the server ended a statement because of statement_timeout.
func TimedOut(err error) bool { return SQLState(err) == "57014" }

// DataError reports whether the server refused the statement's data: nothing of it was
// written, and the other rows of a batch may still be valid. These are data exceptions
// (22), constraint violations (23) and program limits (54).
func DataError(err error) bool {
	s := SQLState(err)
	return strings.HasPrefix(s, "22") || strings.HasPrefix(s, "23") || strings.HasPrefix(s, "54")
}

// UniqueViolation is the SQLSTATE of a key that already exists.
const UniqueViolation = "23505"

// Violates reports whether err is a unique violation of the named constraint.
func Violates(err error, constraint string) bool {
	var e *pq.Error
	return errors.As(err, &e) && e.Code == UniqueViolation && e.Constraint == constraint
}

// serverReadOnly reports whether a write reached a server that accepts none: a standby,
// or a primary that was set to read-only.
func serverReadOnly(err error) bool { return SQLState(err) == "25006" }

// permissionDenied reports whether the session's role may not do what it tried.
func permissionDenied(err error) bool { return SQLState(err) == "42501" }

// loginRefused reports whether the server did not let the user in: a wrong
// password, or no such role or one that may not log in.
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
