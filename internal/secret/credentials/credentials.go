// Package credentials provides the login for new database connections and detects when it has
// changed. It supports fixed settings, a password file that is rewritten externally, and (in
// package vault) logins with a lease. (Seed 1, Vault; invariant F62: no saga is lost because of a
// rotation.)
package credentials

import (
	"context"
	"log/slog"
)

// Login is a user and a password. The zero Login means that those of the database address are used.
// Neither fmt nor slog prints the password.
type Login struct{ User, Password string }

// String returns only the user.
func (l Login) String() string { return "login of " + l.User }

// GoString is String.
func (l Login) GoString() string { return l.String() }

// LogValue returns only the user.
func (l Login) LogValue() slog.Value { return slog.StringValue(l.User) }

// Source provides the login for new connections. Its methods are safe for concurrent use.
type Source interface {
	// Login returns the current login. refused, unless it is zero, is a login that the server has
	// just rejected. In that case the source looks for a newer one. If there is none, it returns
	// its current login, which may be the rejected one; another attempt with that is useless. ctx
	// limits the search. An error means that there is no login.
	Login(ctx context.Context, refused Login) (Login, error)
	// Current reports whether a connection made with l may still be used.
	Current(l Login) bool
}

// Fixed is a Source that never changes. With the zero Fixed, the login comes from the database
// address.
type Fixed Login

// Login returns f, even if it was refused.
func (f Fixed) Login(context.Context, Login) (Login, error) { return Login(f), nil }

// Current returns true.
func (Fixed) Current(Login) bool { return true }
