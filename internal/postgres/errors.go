package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/fault"
)

// SQLSTATE knowledge lives here and nowhere else.

// SQLState returns the code of a server's error, "" when it is none.
func SQLState(err error) string {
	var e *pq.Error
	if errors.As(err, &e) {
		return string(e.Code)
	}
	return ""
}

// Collided tells whether two transactions got in each other's way: the same
// statement may simply be run again.
func Collided(err error) bool {
	switch SQLState(err) {
	case "40001", "40P01", "55P03": // serialization, deadlock, lock_timeout
		return true
	}
	return false
}

// TimedOut tells whether the server ended a statement because its time was up.
func TimedOut(err error) bool { return SQLState(err) == "57014" }

// DataError tells whether the statement's own data was refused, so that
// nothing of it was written and the other rows of a batch may still be fine:
// data exceptions (22), constraint violations (23), program limits (54).
func DataError(err error) bool {
	s := SQLState(err)
	return strings.HasPrefix(s, "22") || strings.HasPrefix(s, "23") || strings.HasPrefix(s, "54")
}

// UniqueViolation is the SQLSTATE of a key that is taken.
const UniqueViolation = "23505"

// Violates tells whether err is a unique violation of the named constraint.
func Violates(err error, constraint string) bool {
	var e *pq.Error
	return errors.As(err, &e) && e.Code == UniqueViolation && e.Constraint == constraint
}

// serverReadOnly tells whether a write met a server that takes none: a standby,
// or a primary that was told so.
func serverReadOnly(err error) bool { return SQLState(err) == "25006" }

// permissionDenied tells whether the session's role may not do what it tried.
func permissionDenied(err error) bool { return SQLState(err) == "42501" }

// loginRefused tells whether the server did not let the user in: a wrong
// password, or no such role or one that may not log in.
func loginRefused(err error) bool {
	s := SQLState(err)
	return s == "28P01" || s == "28000"
}

// Wrap prefixes an error with what was being done, as in "list sagas: ...". Faults and
// nil are returned unchanged, so that the caller's answer to the client stays exact.
func Wrap(doing string, err error) error {
	if err == nil || fault.As(err) != nil {
		return err
	}
	return fmt.Errorf("%s: %w", doing, err)
}
