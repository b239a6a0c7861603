package vault

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/secret/credentials"
)

// pause is the minimum interval between two look-ups, so that a database that rejects every login
// does not cause a flood of requests to Vault.
const pause = time.Second

// Static is a login at a key-value path of Vault that is maintained externally. It is read at
// startup, and again when PostgreSQL rejects it.
type Static struct {
	s           *session
	path        string
	user, value string // keys of the user and the password

	turn turn // held by the caller that reads from Vault

	mu    sync.Mutex
	login credentials.Login // guarded by mu
	asked time.Time         // guarded by mu; time of the last look-up
}

// NewStatic reads the login at path, which is the API path of the secret. For version 2 of the
// engine, the path contains data/ after the mount, such as secret/data/k1s0/system/saga/database.
// userKey and passwordKey are the secret's keys. If the secret has no userKey, the user of the
// database address is used.
func NewStatic(ctx context.Context, cfg Config, path, userKey, passwordKey string) (*Static, error) {
	s, err := newSession(cfg)
	if err != nil {
		return nil, err
	}
	st := &Static{s: s, path: path, user: userKey, value: passwordKey, turn: newTurn()}
	st.login, err = st.read(ctx)
	st.asked = time.Now()
	return st, err
}

// Login implements credentials.Source. It calls Vault only if a login was refused.
func (st *Static) Login(ctx context.Context, refused credentials.Login) (credentials.Login, error) {
	if login, _ := st.now(); refused != login {
		return login, nil
	}
	if err := st.turn.take(ctx); err != nil {
		return credentials.Login{}, err
	}
	defer st.turn.give()
	old, asked := st.now()
	if refused != old || time.Since(asked) < pause { // another caller has just looked it up
		return old, nil
	}
	login, err := st.read(ctx)
	if st.s.cfg.Observe != nil {
		st.s.cfg.Observe(err, time.Time{})
	}
	switch {
	case err != nil:
		st.s.cfg.Log.WarnContext(
			ctx,
			"the database rejects the password, but Vault still returns the same one",
			slog.Any("error", err),
		)
		login = old
	case login != old:
		st.s.cfg.Log.InfoContext(ctx, "read a new database password from Vault")
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.login, st.asked = login, time.Now()
	return login, nil
}

func (st *Static) now() (credentials.Login, time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.login, st.asked
}

// Current returns true: a session outlives its password.
func (st *Static) Current(credentials.Login) bool { return true }

// Close revokes the token if Skald requested it.
func (st *Static) Close(ctx context.Context) error { return st.s.end(ctx) }

func (st *Static) read(ctx context.Context) (credentials.Login, error) {
	secret, err := st.s.read(ctx, st.path)
	if err != nil {
		return credentials.Login{}, err
	}
	data := unwrapped(secret.Data)
	login := credentials.Login{User: text(data, st.user), Password: text(data, st.value)}
	if login.Password == "" {
		return credentials.Login{}, fmt.Errorf("vault: read %s: the secret has no string at key %q", st.path, st.value)
	}
	return login, nil
}
