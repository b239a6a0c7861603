package vault

import (
	"context"
	"log/slog"
	"time"

	"github.com/skald-saga/skald/internal/loop"
)

// Reader reads secrets at key-value paths of Vault. It is safe for concurrent use.
type Reader struct{ s *session }

// NewReader returns a reader. It does not call Vault yet.
func NewReader(cfg Config) (*Reader, error) {
	s, err := newSession(cfg)
	if err != nil {
		return nil, err
	}
	return &Reader{s}, nil
}

// Read returns the data at path, which is the API path of a secret. For version 2 of the engine,
// the path contains data/ after the mount. If Vault has refused or not answered a call, the error
// is an *Error.
func (r *Reader) Read(ctx context.Context, path string) (map[string]any, error) {
	secret, err := r.s.read(ctx, path)
	if err != nil {
		return nil, err
	}
	return unwrapped(secret.Data), nil
}

// Run renews the token until ctx ends.
func (r *Reader) Run(ctx context.Context) {
	const look = 5 * time.Second // interval of checking until there is a token
	for failures := 0; ; {
		wait := look
		t := r.s.now()
		switch {
		case failures > 0:
			wait = loop.Jittered(min(time.Second<<min(failures-1, 6), time.Minute))
		case t.text != "":
			wait = max(time.Until(t.renewAt()), 0)
		}
		if !loop.Sleep(ctx, wait) {
			return
		}
		if t.text == "" {
			continue
		}
		switch err := r.s.renew(ctx); {
		case ctx.Err() != nil:
			return
		case err == nil:
			failures = 0
		default:
			failures++
			r.s.cfg.Log.Warn("the Vault token for secrets of participants could not be renewed",
				slog.Any("error", err), slog.Time("valid_until", t.until), slog.Int("failures", failures))
		}
	}
}

// Close revokes the token if Skald requested it.
func (r *Reader) Close(ctx context.Context) error { return r.s.end(ctx) }
