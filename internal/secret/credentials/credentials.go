// Package credentials says what new connections to the database sign in with,
// and tells when it has changed: settings that never change, a password file
// that somebody else rewrites, and (package vault) logins that live for hours.
// (Seed 1, Vault; invariant F62: a rotation costs no saga.)
package credentials

import (
	"context"
	"log/slog"
)

// Login is a user and a password; the zero Login means what the database
// address says. Neither fmt nor slog shows the password.
type Login struct{ User, Password string }

// String names the user only.
func (l Login) String() string { return "login of " + l.User }

// GoString is String.
func (l Login) GoString() string { return l.String() }

// LogValue is the user.
func (l Login) LogValue() slog.Value { return slog.StringValue(l.User) }

// Source gives the login of new connections. Its methods are safe for
// concurrent use.
type Source interface {
	// Login returns what to sign in with now. refused, unless zero, is a login
	// that the server has just refused: the source then looks for a newer one.
	// When it finds none it returns the one it has, which may be refused itself:
	// to try that once more is useless. ctx bounds the search. An error means
	// that there is no login at all.
	Login(ctx context.Context, refused Login) (Login, error)
	// Current tells whether a connection made with l may be used further.
	Current(l Login) bool
}

// Fixed is a Source that never changes. The zero Fixed leaves the login to the
// database address.
type Fixed Login

// Login returns f, refused or not.
func (f Fixed) Login(context.Context, Login) (Login, error) { return Login(f), nil }

// Current is true.
func (Fixed) Current(Login) bool { return true }
