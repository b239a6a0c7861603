package participant

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/webhooks"
)

// Func executes or compensates a step. Its output is encoded as JSON and becomes the step's output;
// nil means no output. What it writes in tx is committed together with the answer. It must not
// commit or roll back tx, which is nil if the store is in memory.
//
// An error rolls the transaction back. A *Refusal is permanent; a *NotApplied asks for another
// attempt. Any other error leaves the step in doubt: Skald repeats the call, which then calls the
// function again.
type Func func(ctx context.Context, tx *sql.Tx, c *Call) (output any, err error)

// Config configures a Handler. Store and Execute are required.
type Config struct {
	Store Store
	// Execute performs the step and Compensate undoes it. Without Compensate, the compensation of a
	// completed step is refused.
	Execute, Compensate Func
	// Cancel undoes what Execute wrote when it returned Later, if a compensation arrives before the
	// work is finished. From then on, Finish fails. nil means that nothing needs undoing, for
	// example because Execute only recorded the work.
	Cancel Func
	// Secrets verify signed calls (Skald's participants.signing_secrets). Pass two while one
	// replaces the other. nil disables verification.
	Secrets []string
	// CallbackOrigins are the origins of Skald's server.public_url, such as https://skald.example.
	// A call whose callback has another origin is refused, because X-Saga-Callback is not signed.
	// nil allows reports to any origin.
	CallbackOrigins []string

	MaxBody int64        // limit for a request body; 0 means 16 MiB, as limits.max_request_bytes of Skald
	Log     *slog.Logger // nil disables logging
	// Client sends the reports of deferred calls; nil means a client with default settings.
	// Redirects are never followed.
	Client *http.Client
	Now    func() time.Time // nil means time.Now
}

// Handler answers calls from Skald.
type Handler struct {
	cfg    Config
	turn   turns
	client *http.Client
}

// New returns a handler, or an error if cfg is invalid.
func New(cfg Config) (*Handler, error) {
	if cfg.Store == nil || cfg.Execute == nil {
		return nil, errors.New("participant: Store and Execute are required")
	}
	// An empty list is a mistake, such as a missing setting: it would refuse every call.
	if cfg.Secrets != nil && len(cfg.Secrets) == 0 || cfg.CallbackOrigins != nil && len(cfg.CallbackOrigins) == 0 {
		return nil, errors.New("participant: Secrets and CallbackOrigins must be nil, or have at least one element")
	}
	for _, secret := range cfg.Secrets {
		if _, err := webhooks.ParseSecret(secret); err != nil {
			return nil, fmt.Errorf("participant: %w", err)
		}
	}
	for _, origin := range cfg.CallbackOrigins {
		at, err := url.Parse(origin)
		if err != nil || origin != at.Scheme+"://"+at.Host || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" {
			return nil, fmt.Errorf("participant: %q is not an origin such as https://skald.example", origin)
		}
	}
	if cfg.MaxBody == 0 {
		cfg.MaxBody = 16 << 20
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	client := http.Client{}
	if cfg.Client != nil {
		client = *cfg.Client
	}
	// A report goes only to the URL that Skald gave.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Handler{cfg: cfg, turn: turns{held: map[string]*turn{}}, client: &client}, nil
}

// ServeHTTP answers one call.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.cfg.MaxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		problem(http.StatusRequestEntityTooLarge, "TOO_LARGE", "the request is too large").write(w, 0)
		return
	} else if err != nil {
		panic(http.ErrAbortHandler) // the call did not arrive whole, so it is not executed
	}
	if h.cfg.Secrets != nil {
		if err := webhooks.VerifyCall(h.cfg.Secrets, r.Header, body, h.cfg.Now()); err != nil {
			problem(http.StatusUnauthorized, "SIGNATURE", err.Error()).write(w, 0)
			return
		}
	}
	c, err := read(r.Header, body)
	if err != nil {
		problem(http.StatusBadRequest, "CALL_INVALID", err.Error()).write(w, 0)
		return
	}
	if !h.reportsTo(c.Callback) {
		problem(http.StatusForbidden, "CALLBACK_ORIGIN", "this participant does not report to X-Saga-Callback").write(w, 0)
		return
	}
	answer, err := h.answer(r.Context(), c)
	h.explain(w, c, answer, err)
}

// reportsTo reports whether a callback is at one of the allowed origins. It compares the text up to
// the first slash of the path, so that two URL parsers cannot disagree about the host.
func (h *Handler) reportsTo(callback string) bool {
	return callback == "" || h.cfg.CallbackOrigins == nil ||
		slices.ContainsFunc(h.cfg.CallbackOrigins, func(o string) bool { return strings.HasPrefix(callback, o+"/") })
}

// explain sends the answer, or translates an error into the response that Skald expects.
func (h *Handler) explain(w http.ResponseWriter, c *Call, answer kept, err error) {
	if err == nil {
		answer.write(w, 0)
		return
	}
	if again := (*NotApplied)(nil); errors.As(err, &again) {
		problem(http.StatusTooEarly, "NOT_APPLIED", again.Message).write(w, again.After)
		return
	}
	h.cfg.Log.Error("call failed", slog.String("key", c.Key), slog.Any("error", err))
	problem(http.StatusInternalServerError, "FAILED", err.Error()).write(w, 0)
}

// answer processes a call when its turn comes, and returns its answer once that is durable.
func (h *Handler) answer(ctx context.Context, c *Call) (answer kept, err error) {
	// Concurrent repeats of a call to this process wait here, where they hold no database
	// connection.
	leave, err := h.turn.wait(ctx, c.id())
	if err != nil {
		return kept{}, &NotApplied{Message: "the same call is in progress"}
	}
	defer leave()
	var before *step // the state that the function found
	answer, err = h.once(ctx, c, func(tx *sql.Tx, s *step) (kept, error) {
		found := *s
		before = &found
		return h.call(ctx, tx, c, s)
	})
	if err == nil || before == nil {
		return answer, err
	}
	// What the function wrote is rolled back. The facts that must survive the failure are stored in
	// a separate transaction, even if the caller has disconnected, because it may send a
	// compensation next.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if refused := (*Refusal)(nil); errors.As(err, &refused) {
		if answer, err = refused.answer(); err == nil {
			c.committed = nil
			refusal := answer // unless another process has answered the call in the meantime
			return h.once(ctx, c, func(_ *sql.Tx, s *step) (kept, error) { s.failed(c, *before); return refusal, nil })
		}
	}
	if lost := h.cfg.Store.within(ctx, c.id(), h.cfg.Now(), func(_ *sql.Tx, s *step) (bool, error) {
		s.failed(c, *before)
		return true, nil
	}); lost != nil {
		h.cfg.Log.Warn("a failed call is not remembered", slog.String("key", c.Key), slog.Any("error", lost))
	}
	return answer, err
}

// patience limits the transaction after a failure.
const patience = 10 * time.Second

// once judges a call in a transaction and executes it if necessary.
func (h *Handler) once(
	ctx context.Context, c *Call, do func(*sql.Tx, *step) (kept, error),
) (answer kept, err error) {
	err = h.cfg.Store.within(ctx, c.id(), h.cfg.Now(), func(tx *sql.Tx, s *step) (bool, error) {
		var v verdict
		v, answer = s.judge(c)
		switch v {
		case perform:
			var err error
			if answer, err = do(tx, s); err != nil {
				return false, err
			}
			s.keep(c, answer)
			if answer.Later != nil {
				return true, h.cfg.Store.name(ctx, tx, c.Key, c.id(), h.cfg.Now())
			}
			return true, nil
		case succeed:
			answer = kept{Status: http.StatusOK, Body: "{}"}
			s.keep(c, answer)
			return true, nil
		}
		// A key that is reused with another body leaves no trace.
		higher := c.Fence > s.Fence && answer.Status != http.StatusUnprocessableEntity
		newer := v == repeat && s.newer(c)
		s.Fence = max(s.Fence, c.Fence)
		return higher || newer, nil
	})
	if err != nil {
		return kept{}, err
	}
	for _, f := range c.committed {
		f()
	}
	c.committed = nil
	return answer, nil
}

// call calls the function of the action. A panic becomes an error, so that the transaction is
// rolled back.
func (h *Handler) call(ctx context.Context, tx *sql.Tx, c *Call, s *step) (answer kept, err error) {
	do := h.cfg.Execute
	if c.Action == Compensate {
		do = h.cfg.Compensate
	}
	if c.Action == Compensate && s.Done == 0 { // the newest execute is still in progress
		if do = h.cfg.Cancel; do == nil {
			return kept{Status: http.StatusOK, Body: "{}"}, nil
		}
	}
	if do == nil {
		return kept{}, Refuse("NO_COMPENSATION", "this participant cannot undo the step")
	}
	defer func() {
		if cause := recover(); cause != nil {
			h.cfg.Log.Error("call panicked", slog.String("key", c.Key), slog.Any("cause", cause))
			err = errors.New("the participant failed")
		}
	}()
	output, err := do(ctx, tx, c)
	if err != nil {
		return kept{}, err
	}
	if output == Later {
		return later(c)
	}
	body, err := encode(output)
	return kept{Status: http.StatusOK, Body: body}, err
}
