package httpapi

import (
	"bytes"
	"context"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/idempotency/claims"
)

// keptKey is the parameter of operations whose responses are stored with the Idempotency-Key. For
// resources that store the key themselves, the handler replays the response.
const keptKey = "#/components/parameters/KeptIdempotencyKey"

// mostKept is the maximum size of a stored response, in bytes.
const mostKept = 1 << 20

// keep implements the Idempotency-Key for operations whose responses are stored. Malformed
// requests are rejected earlier, so they do not use up their key.
func (s *server) keep(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := r.Header.Get("Idempotency-Key")
		if header == "" || !s.contract.routeOf(r.Context(), r.Method).keeps {
			next.ServeHTTP(w, r)
			return
		}
		req := httpkit.RequestOf(r.Context())
		if dry, _ := strconv.ParseBool(req.Values().Get("dry_run")); dry {
			next.ServeHTTP(w, r)
			return
		}
		key := httpkit.KeyOf(req, &header)
		release, err := s.inUse.Hold(req.Tenant.ID, uuid.Nil, key)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		defer release()
		claim := claims.NewClaim(*key, s.cfg.NewID())
		switch prior, err := s.prior(r.Context(), claim.Key); {
		case err != nil:
			s.fail(w, r, err)
			return
		case prior != nil:
			replay(w, prior)
			return
		}
		out := &kept{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(out, r.WithContext(claims.With(r.Context(), claim)))
		s.settle(r.Context(), claim, out)
		out.send()
	})
}

// prior returns the response to an earlier request with the key, nil if there was no such request.
// Faults: Invalid if the key was used for another request, Conflict if there is no response (yet).
func (s *server) prior(ctx context.Context, key idempotency.Key) (*idempotency.Answer, error) {
	ctx, cancel := s.kit.Bounded(ctx)
	defer cancel()
	found, err := s.cfg.Answers.Find(ctx, key)
	switch {
	case err != nil || found == nil:
		return nil, err
	case subtle.ConstantTimeCompare(found.Hash, key.Hash) == 0:
		return nil, idempotency.Used()
	case found.Answer == nil && found.Age < s.cfg.Limits.RequestTimeout+s.cfg.Limits.MaxWait:
		return nil, idempotency.InUse() // another node may be about to store it
	case found.Answer == nil:
		return nil, fault.New(fault.Conflict, httpkit.CodeAnswerNotKept,
			"a request with this Idempotency-Key took effect, but the server stopped before its response was stored: "+
				"read the resource to see what it did")
	case found.Answer.Withheld:
		what := "took effect"
		if at := found.Answer.Location; at != "" {
			what = "created " + at
		}
		return nil, fault.New(fault.Conflict, httpkit.CodeAnswerNotKept,
			"a request with this Idempotency-Key %s; its response contained a secret or was too large, and was not stored", what)
	}
	return found.Answer, nil
}

func replay(w http.ResponseWriter, a *idempotency.Answer) {
	answer := httpkit.Answer{Status: a.Status, Raw: a.Body, ETag: a.ETag, Location: a.Location, Replayed: true}
	_ = answer.Write(w) // the body is already encoded
}

// settle stores the response before it is sent. If storing fails, the key remains without a
// response, so that a retry does not take effect a second time.
func (s *server) settle(ctx context.Context, claim *claims.Claim, out *kept) {
	ctx, cancel := s.kit.Promised(ctx)
	defer cancel()
	var err error
	switch done := out.status < http.StatusMultipleChoices; {
	case done:
		a := idempotency.Answer{Status: out.status, ETag: out.Header().Get("ETag"), Location: out.Header().Get("Location"),
			Body: out.body.Bytes()}
		if out.Header().Get("Cache-Control") == httpkit.NotStored || len(a.Body) > mostKept {
			a.Body, a.Withheld = nil, true
		}
		err = s.cfg.Answers.Keep(ctx, claim, a)
	case claim.Stored() && out.status < http.StatusInternalServerError, out.status == http.StatusBadGateway:
		err = s.cfg.Answers.Drop(ctx, claim) // the request was rejected without any effect, so the key may be reused
	}
	if err != nil {
		s.cfg.Log.ErrorContext(ctx, "the response of an Idempotency-Key could not be stored",
			slog.String("request_id", httpkit.RequestOf(ctx).ID), slog.Any("error", err))
	}
}

// kept holds back a response until it is stored.
type kept struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (k *kept) WriteHeader(status int) { k.status = status }

func (k *kept) Write(b []byte) (int, error) { return k.body.Write(b) }

// Unwrap supports http.ResponseController.
func (k *kept) Unwrap() http.ResponseWriter { return k.ResponseWriter }

func (k *kept) send() {
	k.ResponseWriter.WriteHeader(k.status)
	if k.body.Len() > 0 {
		_, _ = k.ResponseWriter.Write(k.body.Bytes()) // an error means that the client has disconnected
	}
}
