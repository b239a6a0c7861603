package targets

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/egress"
)

// Headers of a request that drives a letter, beside Idempotency-Key
// (dlq.Drive.IdempotencyKey) and what the record carries (dlq.CarryOverHTTP).
const (
	HeaderMessageID     = "X-Dlq-Message-Id" // root of the lineage
	HeaderRedriveID     = "X-Dlq-Redrive-Id" // only of a bulk redrive
	HeaderGeneration    = "X-Dlq-Generation"
	HeaderAttempt       = "X-Dlq-Attempt"
	HeaderRevision      = "X-Dlq-Revision"       // 0: never edited
	HeaderOriginalTopic = "X-Dlq-Original-Topic" // percent-encoded where it is no visible ASCII
	headerIdempotency   = "Idempotency-Key"
)

const (
	maxAnswer = 16 << 10 // read of an answer, only so that the connection can be used again
	maxShown  = 512      // of it, kept with a failure
)

// HTTPConfig is what an HTTP driver needs. Policy, Now and Log are required.
type HTTPConfig struct {
	Policy      *egress.Policy // checked at every connection, on the resolved address
	RootCAs     *x509.CertPool // nil: the system's
	Timeout     time.Duration  // of one request, the answer included; 0: 10 s
	Concurrency int            // requests at once, of all batches; 0: 8
	Version     string         // stands in the User-Agent
	Now         func() time.Time
	Log         *slog.Logger
}

// HTTP drives letters to HTTP targets: the payload as body, key and headers as
// dlq.CarryOverHTTP says. 2xx acknowledges;
// another 4xx, 503 and what failed before anything was sent has failed; all
// else, timeouts above all, is uncertain.
type HTTP struct {
	client *http.Client
	places chan struct{}
	cfg    HTTPConfig
}

// NewHTTP returns a driver. Close it to give up its connections.
func NewHTTP(cfg HTTPConfig) *HTTP {
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Concurrency == 0 {
		cfg.Concurrency = 8
	}
	return &HTTP{
		cfg: cfg, places: make(chan struct{}, cfg.Concurrency),
		client: &http.Client{
			Timeout: cfg.Timeout,
			Transport: &http.Transport{
				Proxy:               nil, // a proxy would connect where the policy cannot look
				DialContext:         cfg.Policy.DialContext(cfg.Timeout),
				TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.RootCAs},
				TLSHandshakeTimeout: cfg.Timeout,
				MaxIdleConnsPerHost: cfg.Concurrency, MaxIdleConns: 256, IdleConnTimeout: time.Minute,
				MaxResponseHeaderBytes: 64 << 10,
				DisableCompression:     true,
				ForceAttemptHTTP2:      true,
			},
			// A redirect leads where nobody has agreed to be led.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Close closes idle connections.
func (h *HTTP) Close() { h.client.CloseIdleConnections() }

// AtOnce is how many requests are made at a time.
func (h *HTTP) AtOnce() int { return h.cfg.Concurrency }

// Drive implements Driver.
func (h *HTTP) Drive(ctx context.Context, batch []dlq.Drive) []dlq.Result {
	results := make([]dlq.Result, len(batch))
	var sending sync.WaitGroup
	for i := range batch {
		select {
		case h.places <- struct{}{}:
			if ctx.Err() == nil {
				sending.Go(func() {
					defer func() { <-h.places }()
					results[i] = h.one(ctx, &batch[i])
				})
				continue
			}
			<-h.places
		case <-ctx.Done():
		}
		now := h.cfg.Now()
		results[i] = dlq.Result{Outcome: dlq.Withdrawn, Error: "the node stopped before it was sent", StartedAt: now, EndedAt: now}
	}
	sending.Wait()
	return results
}

func (h *HTTP) one(ctx context.Context, d *dlq.Drive) dlq.Result {
	r := dlq.Result{StartedAt: h.cfg.Now()}
	r.Outcome, r.StatusCode, r.Error = h.request(ctx, d)
	r.EndedAt = h.cfg.Now()
	return r
}

func (h *HTTP) request(ctx context.Context, d *dlq.Drive) (outcome dlq.AttemptOutcome, status int, problem string) {
	req, err := http.NewRequestWithContext(ctx, cmp.Or(d.To.Method, http.MethodPost), d.To.URL,
		bytes.NewReader(d.Send.Payload))
	if err != nil {
		return dlq.FailedDrive, 0, "invalid URL or method"
	}
	req.GetBody = nil // or net/http might send it twice, and nobody would know (trap X45)
	req.Header.Set("User-Agent", "skald/"+h.cfg.Version)
	carried, err := d.CarryOverHTTP()
	if err != nil {
		return dlq.FailedDrive, 0, fmt.Sprintf("%v: retry it with headers_patch or key_base64", err)
	}
	for _, h := range carried.Headers { // first: none of them stands for what follows
		req.Header.Add(h.Name, string(h.Value))
	}
	req.Header.Set("Content-Type", cmp.Or(carried.ContentType, typeOf(d.Send.Payload)))
	req.Header.Set(headerIdempotency, d.IdempotencyKey())
	req.Header.Set(HeaderMessageID, d.RootID.String())
	req.Header.Set(HeaderGeneration, strconv.Itoa(d.Generation))
	req.Header.Set(HeaderAttempt, strconv.Itoa(d.Number))
	req.Header.Set(HeaderRevision, strconv.Itoa(d.Revision))
	req.Header.Set(HeaderOriginalTopic, url.PathEscape(d.OriginalTopic))
	if d.RedriveID != [16]byte{} {
		req.Header.Set(HeaderRedriveID, d.RedriveID.String())
	}
	res, err := h.client.Do(req)
	if err != nil {
		outcome, problem = h.failed(ctx, d, err)
		return outcome, 0, problem
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer)) // the status is the answer
	switch code := res.StatusCode; {
	case code/100 == 2:
		return dlq.Acknowledged, code, ""
	case code/100 == 4 || code == http.StatusServiceUnavailable:
		outcome = dlq.FailedDrive
	default:
		outcome = dlq.Uncertain
	}
	problem = fmt.Sprintf("the target answered %d", res.StatusCode)
	if shown := strings.TrimSpace(dlq.Storable(string(answer[:min(len(answer), maxShown)]), maxShown)); shown != "" {
		problem += ": " + shown
	}
	return outcome, res.StatusCode, problem
}

// failed words an error for the tenant, without addresses: those are the
// operator's and go to the log. What failed before the request was written has
// certainly not arrived.
func (h *HTTP) failed(ctx context.Context, d *dlq.Drive, err error) (dlq.AttemptOutcome, string) {
	log := h.cfg.Log.With(slog.String("letter_id", d.ID.String()), slog.Int("attempt", d.Number))
	var denied *egress.Denied
	var lookup *net.DNSError
	var certificate *tls.CertificateVerificationError
	var dial *net.OpError
	var call *url.Error
	outcome, words := dlq.Uncertain, "the connection failed"
	switch {
	case errors.As(err, &denied):
		outcome, words = dlq.FailedDrive, "the egress policy does not allow the address"
		log.WarnContext(ctx, "egress denied", slog.Any("error", denied))
	case errors.As(err, &lookup):
		outcome, words = dlq.FailedDrive, "the host name cannot be resolved"
	case errors.As(err, &certificate):
		outcome, words = dlq.FailedDrive, "the TLS handshake failed"
	case errors.As(err, &dial) && dial.Op == "dial":
		outcome, words = dlq.FailedDrive, "no connection could be made"
	case ctx.Err() != nil:
		words = "the node stopped before there was an answer"
	case errors.As(err, &call) && call.Timeout():
		words = "no answer in time"
	}
	log.DebugContext(ctx, "sending a dead letter failed", slog.Any("error", err))
	return outcome, words
}

// typeOf is what the payload looks like.
func typeOf(payload []byte) string {
	switch dlq.EncodingOf(payload) {
	case dlq.JSON:
		return "application/json"
	case dlq.Text:
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}
