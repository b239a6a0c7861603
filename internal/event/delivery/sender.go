package delivery

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/webhooks"
	"github.com/skald-saga/skald/internal/egress"
	"github.com/skald-saga/skald/internal/event/cloudevent"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/retry"
)

// maxAnswer is how many bytes of a response are read, only so that the connection can be reused.
// They are discarded, because a response from inside the network must not reach the user who
// registered the URL (threat T7).
const maxAnswer = 16 << 10

// Sender sends the requests. It is safe for concurrent use.
type Sender struct {
	client *egress.Client
	agent  string
	now    func() time.Time
	log    *slog.Logger
}

// SenderConfig configures a Sender. Policy, Now and Log are required.
type SenderConfig struct {
	Policy  *egress.Policy     // checked for every connection, on the resolved address
	TLS     func() *tls.Config // in the form that egress.Policy.NewClient takes; nil: the system's authorities
	Timeout time.Duration      // timeout of one request, including the response; 0: 10 s
	Version string             // shown in the User-Agent
	Now     func() time.Time
	Log     *slog.Logger
}

// NewSender returns a sender. Call Close to close its connections.
func NewSender(cfg SenderConfig) *Sender {
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	return &Sender{
		client: cfg.Policy.NewClient(cfg.Timeout, 8, cfg.TLS),
		agent:  "skald/" + cfg.Version, now: cfg.Now, log: cfg.Log,
	}
}

// Close closes idle connections.
func (s *Sender) Close() { s.client.Close() }

// Send makes one attempt and returns its outcome. If ctx ends, the attempt is Abandoned, although
// it may have arrived.
func (s *Sender) Send(ctx context.Context, to *webhook.Subscription, d *webhook.Delivery) webhook.Outcome {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.URL, http.NoBody)
	if err != nil {
		return webhook.Outcome{Error: "the URL cannot be used", Unsendable: true}
	}
	now := s.now()
	var signatures []string
	for _, key := range to.Keys(now) {
		signatures = append(signatures, webhooks.Sign(key, d.ID.String(), now, d.Body))
	}
	if signatures == nil {
		return webhook.Outcome{Error: "the webhook has no signing secret: rotate its secret", Unsendable: true}
	}
	req.Header.Set("Content-Type", cloudevent.MediaType)
	req.Header.Set("User-Agent", s.agent)
	req.Header.Set(webhooks.HeaderID, d.ID.String())
	req.Header.Set(webhooks.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(webhooks.HeaderSignature, strings.Join(signatures, " "))
	res, _, err := s.client.Send(req, d.Body) // this counts as one attempt, even if a kept connection lost it
	if err != nil {
		return s.failed(ctx, d, err)
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswer) // only the status matters
	return webhook.Outcome{Status: res.StatusCode, RetryAfter: retry.After(res.Header.Get("Retry-After"), now)}
}

// failed describes an error for the tenant. It omits addresses, which are only logged.
func (s *Sender) failed(ctx context.Context, d *webhook.Delivery, err error) webhook.Outcome {
	if ctx.Err() != nil {
		return webhook.Outcome{Abandoned: true}
	}
	var denied *egress.Denied
	var lookup *net.DNSError
	var call *url.Error
	words := "the connection failed"
	switch {
	case errors.As(err, &denied):
		words = "the egress policy does not allow the address"
		s.log.WarnContext(ctx, "egress denied", slog.String("webhook_id", d.WebhookID.String()), slog.Any("error", denied))
	case errors.As(err, &lookup):
		words = "the host name cannot be resolved"
	case egress.Rejected(err) != "":
		words = "the TLS handshake failed: " + egress.Rejected(err)
	case egress.RefusedUs(err):
		words = "the TLS handshake failed: the endpoint rejected Skald's client certificate, or requires one and got none"
	case errors.As(err, &call) && call.Timeout():
		words = "no answer in time"
	}
	s.log.DebugContext(ctx, "webhook attempt failed", slog.String("webhook_id", d.WebhookID.String()),
		slog.String("delivery_id", d.ID.String()), slog.Int("attempt", d.Attempt), slog.Any("error", err))
	return webhook.Outcome{Error: words, Unsendable: denied != nil}
}
