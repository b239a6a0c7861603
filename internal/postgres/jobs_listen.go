package postgres

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/secret/credentials"
)

const (
	listenAgain = time.Second      // after a connection was lost
	listenPing  = 30 * time.Second // whether it still lives
)

// listen calls heard with the payload of each notification until ctx ends.
// The connection is one of its own: what listens cannot be shared.
func (db *DB) listen(ctx context.Context, heard func(payload string)) {
	for ctx.Err() == nil {
		db.notified(ctx, heard)
		select {
		case <-ctx.Done():
		case <-time.After(listenAgain):
		}
	}
}

// notified listens until the connection or ctx ends.
func (db *DB) notified(ctx context.Context, heard func(payload string)) {
	login, err := db.logins.Login(ctx, credentials.Login{})
	if err != nil {
		return
	}
	heardOf := make(chan *pq.Notification, 32)
	conn, err := pq.NewListenerConn(signedIn(db.dsn, login), heardOf)
	if err != nil {
		return
	}
	defer conn.Close() //nolint:errcheck // nothing was written on it
	if _, err := conn.Listen(runsChannel); err != nil {
		return
	}
	ping := time.NewTicker(listenPing)
	defer ping.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case n, open := <-heardOf:
			if !open {
				return
			}
			if n != nil {
				heard(n.Extra)
			}
		case <-ping.C:
			if conn.Ping() != nil {
				return
			}
		}
	}
}

// signedIn is an address of the database with this login in it.
func signedIn(dsn string, l credentials.Login) string {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		quote := strings.NewReplacer(`\`, `\\`, `'`, `\'`)
		for name, value := range map[string]string{"user": l.User, "password": l.Password} {
			if value != "" {
				dsn += " " + name + "='" + quote.Replace(value) + "'"
			}
		}
		return dsn
	}
	u, err := url.Parse(dsn)
	if err != nil || l == (credentials.Login{}) {
		return dsn
	}
	user, password := u.User.Username(), l.Password
	if l.User != "" {
		user = l.User
	}
	if password == "" {
		password, _ = u.User.Password()
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}
