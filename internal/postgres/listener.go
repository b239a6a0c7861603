package postgres

import (
	"context"
	"net/url"
	"strings"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/secret/credentials"
)

// Listener opens a connection for LISTEN, which cannot be shared with other uses.
func (db *DB) Listener(ctx context.Context, heard chan *pq.Notification) (*pq.ListenerConn, error) {
	login, err := db.logins.Login(ctx, credentials.Login{})
	if err != nil {
		return nil, err
	}
	return pq.NewListenerConn(signedIn(db.dsn, login), heard)
}

// signedIn returns the address dsn with the login l in it.
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
