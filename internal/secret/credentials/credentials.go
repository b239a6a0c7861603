// Package credentials provides the login of new database connections and detects when
// it has changed: fixed settings, a password file that is rewritten externally, and
// (package vault) logins with a lease. (Seed 1, Vault; invariant F62: a rotation costs
// no saga.)
package credentials

import (
	"context"
	"log/slog"
)

// Login is a user and a password; the zero Login uses those of the database address.
// Neither fmt nor slog prints the password.
type Login struct{ User, Password string }

// String returns only the user.
func (l Login) String() string { return "login of " + l.User }

// GoString is String.
func (l Login) GoString() string { return l.String() }

// LogValue returns only the user.
func (l Login) LogValue() slog.Value { return slog.StringValue(l.User) }

// Source provides the login of new connections. Its methods are safe for concurrent
// use.
type Source interface {
	// Login returns the current login. refused, unless zero, is a login that the server has
	// just rejected: the source then looks for a newer one, and if there is none it returns its
	// current one, perhaps the rejected one, with which another attempt is useless. ctx limits
	// the search. An error means that there is no login.
	Login(ctx context.Context, refused Login) (Login, error)
	// Current reports whether a connection made with l may still be used.
	Current(l Login) bool
}

// Fixed is a Source that never changes. The zero Fixed leaves the login to the
// database address.
type Fixed Login

// Login returns f, even if it was refused.
func (f Fixed) Login(context.Context, Login) (Login, error) { return Login(f), nil }

// Current is true.
func (Fixed) Current(Login) bool { return true }
