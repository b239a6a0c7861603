package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/skald-saga/skald/internal/secret/credentials"
)

// turn is a lock whose callers wait only until their context ends.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }

// session holds the token for calls, and gets another one if the token is rejected or expires soon.
type session struct {
	cfg    Config
	client *api.Client
	turn   turn // held by the caller

	mu    sync.Mutex
	token token // guarded by mu; written only by the holder of turn
}

// token is a Vault token and its lifetime. Leases created with a token end with it, so they store
// its number.
type token struct {
	text      string
	granted   time.Duration // full lifetime
	until     time.Time
	renewable bool
	number    int // number of the token in the session
}

// renewAt returns when two thirds of a token's lifetime will be over.
func (t token) renewAt() time.Time { return t.until.Add(-t.granted / 3) }

func (s *session) now() token {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token
}

func newSession(cfg Config) (*session, error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	cfg.Log = logger(cfg)
	client, err := newAPI(cfg)
	if err != nil {
		return nil, err
	}
	return &session{cfg: cfg, client: client, turn: newTurn()}, nil
}

// do makes one call with a token. If the token is rejected, it repeats the call with a new one.
// Calls are rare and run one at a time.
func (s *session) do(
	ctx context.Context,
	name string,
	call func(context.Context, *api.Client) (*api.Secret, error),
) (*api.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if err := s.turn.take(ctx); err != nil {
		return nil, explain(name, err)
	}
	defer s.turn.give()
	t := s.now()
	fresh := t.text == "" || !time.Now().Before(t.until)
	if fresh {
		if err := s.signIn(ctx); err != nil {
			return nil, err
		}
	}
	secret, err := call(ctx, s.client)
	if err = explain(name, err); statusOf(err) != http.StatusForbidden || fresh || !s.anotherToken() {
		return secret, err
	}
	if err := s.signIn(ctx); err != nil {
		return nil, err
	}
	secret, err = call(ctx, s.client)
	return secret, explain(name, err)
}

// anotherToken reports whether signing in again could help after a 403.
func (s *session) anotherToken() bool {
	switch s.cfg.Method {
	case AppRole, Kubernetes:
		return true
	case TokenFile:
		text, err := credentials.ReadSecret(s.cfg.TokenFile)
		return err == nil && text != s.now().text
	}
	return false
}

// signIn gets a token with the configured method.
func (s *session) signIn(ctx context.Context) error {
	switch s.cfg.Method {
	case Token:
		return s.adopt(ctx, s.cfg.Token)
	case TokenFile:
		text, err := credentials.ReadSecret(s.cfg.TokenFile)
		if err != nil {
			return fmt.Errorf("vault: the token file %w", err)
		}
		s.use(text, unlimited, false)
		return nil
	case AppRole:
		body := map[string]any{"role_id": s.cfg.RoleID}
		secretID, err := s.secret(s.cfg.SecretID, s.cfg.SecretIDFile)
		if err != nil {
			return fmt.Errorf("vault: the secret_id file %w", err)
		}
		if secretID != "" {
			body["secret_id"] = secretID
		}
		return s.login(ctx, body)
	case Kubernetes:
		jwt, err := credentials.ReadSecret(s.cfg.JWTFile)
		if err != nil {
			return fmt.Errorf("vault: the JWT file %w", err)
		}
		return s.login(ctx, map[string]any{"role": s.cfg.Role, "jwt": jwt})
	}
	return fmt.Errorf("vault: unknown sign-in method %q", s.cfg.Method)
}

func (s *session) secret(given, file string) (string, error) {
	if file == "" {
		return given, nil
	}
	return credentials.ReadSecret(file)
}

// adopt takes a given token and looks up its lifetime. If a token has no permission to look itself
// up, adopt assumes that it does not expire.
func (s *session) adopt(ctx context.Context, text string) error {
	s.client.SetToken(text)
	self, err := s.client.Auth().Token().LookupSelfWithContext(ctx)
	if err = explain("look up the token", err); err != nil && statusOf(err) != http.StatusForbidden {
		return err
	}
	ttl, renewable := 0, false
	if err == nil && self != nil {
		if n, ok := self.Data["ttl"].(json.Number); ok {
			seconds, _ := n.Int64()
			ttl = int(seconds)
		}
		renewable, _ = self.Data["renewable"].(bool)
	}
	s.use(text, seconds(ttl), renewable)
	return nil
}

// login posts body to the method's mount.
func (s *session) login(ctx context.Context, body map[string]any) error {
	mount := s.cfg.Mount
	if mount == "" {
		mount = string(s.cfg.Method)
	}
	s.client.ClearToken()
	secret, err := s.client.Logical().WriteWithContext(ctx, "auth/"+mount+"/login", body)
	if err == nil && (secret == nil || secret.Auth == nil || secret.Auth.ClientToken == "") {
		err = errors.New("the answer has no token")
	}
	if err != nil {
		s.client.SetToken(s.now().text) // the former token, which may still be valid for reads and has to be revoked
		return explain("sign in at auth/"+mount, err)
	}
	s.use(secret.Auth.ClientToken, seconds(secret.Auth.LeaseDuration), secret.Auth.Renewable)
	return nil
}

func (s *session) use(text string, ttl time.Duration, renewable bool) {
	s.client.SetToken(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token{text: text, granted: ttl, until: time.Now().Add(ttl), renewable: renewable, number: s.token.number + 1}
}

// renew renews the token after two thirds of its lifetime. If the token cannot be extended by
// enough, it signs in again. It makes no call if nothing is due.
func (s *session) renew(ctx context.Context) error {
	const name = "renew the token"
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if err := s.turn.take(ctx); err != nil {
		return explain(name, err)
	}
	defer s.turn.give()
	t := s.now()
	if time.Now().Before(t.renewAt()) {
		return nil
	}
	if t.renewable {
		began := time.Now()
		secret, err := s.client.Auth().Token().RenewSelfWithContext(ctx, int(t.granted.Seconds()))
		if err == nil && (secret == nil || secret.Auth == nil) {
			err = errors.New("the answer has no token")
		}
		if err == nil {
			ttl := seconds(secret.Auth.LeaseDuration)
			s.mu.Lock()
			s.token.until = began.Add(ttl)
			s.mu.Unlock()
			if ttl >= t.granted/2 {
				return nil
			}
			err = errors.New("its maximum lifetime ends soon")
		}
		if err = explain(name, err); s.cfg.Method == Token {
			return err
		}
	}
	if s.cfg.Method == Token {
		return &Error{Call: name, Detail: "it cannot be renewed"}
	}
	return s.signIn(ctx)
}

// end revokes a token that Skald requested, and with it every lease created with that token.
func (s *session) end(ctx context.Context) error {
	if s.now().text == "" || s.cfg.Method == Token || s.cfg.Method == TokenFile {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if err := s.turn.take(ctx); err != nil {
		return err
	}
	defer s.turn.give()
	return explain("revoke the token", s.client.Auth().Token().RevokeSelfWithContext(ctx, ""))
}
