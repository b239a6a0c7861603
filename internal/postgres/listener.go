package postgres

import (
	"context"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/secret/credentials"
)

const (
	// ListenPing is how often the user of a Listener must call Ping.
	ListenPing = 30 * time.Second
	// listenPause is how long the driver takes to notice that it was closed.
	listenPause = 50 * time.Millisecond
)

// Listener is a connection for LISTEN, which cannot be shared with other uses. Close it.
type Listener struct {
	*pq.Listener
	Lost <-chan struct{} // closed when the connection is lost
}

// Listener opens a connection for LISTEN. It is lost when ctx ends or its server goes silent.
func (db *DB) Listener(ctx context.Context) (*Listener, error) {
	login, err := db.logins.Login(ctx, credentials.Login{})
	if err != nil {
		return nil, err
	}
	lost, first, made := make(chan struct{}), make(chan error, 1), make(chan struct{})
	l := &Listener{Lost: lost}
	d := lasting{ctx, dialer{
		Dialer: net.Dialer{KeepAlive: keepAlive}, io: 2 * ListenPing, lines: db.lines, idle: true,
	}}
	// The driver would reconnect, but always with the same login, so it is closed first.
	l.Listener = pq.NewDialListener(d, signedIn(db.dsn, login), listenPause, listenPause,
		func(event pq.ListenerEventType, err error) {
			<-made
			switch event {
			case pq.ListenerEventConnected:
				first <- nil
			case pq.ListenerEventConnectionAttemptFailed:
				_ = l.Listener.Close()
				first <- err
			default:
				_ = l.Listener.Close()
				close(lost)
			}
		})
	close(made)
	if err := <-first; err != nil {
		return nil, err
	}
	return l, nil
}

// Close closes the connection.
func (l *Listener) Close() {
	_ = l.Listener.Close() // nothing was written on this connection
	go func() {
		for range l.Notify { // the driver does not end until the channel is drained
		}
	}()
}

// lasting dials connections that last until ctx ends.
type lasting struct {
	ctx context.Context
	dialer
}

func (d lasting) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := d.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(d.ctx, c.giveUp)
	return c, nil
}

func (d lasting) DialTimeout(network, addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(d.ctx, timeout)
	defer cancel()
	return d.DialContext(ctx, network, addr)
}

// signedIn returns the address dsn with the login l.
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
