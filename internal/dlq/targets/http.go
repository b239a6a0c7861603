package targets

import (
	"cmp"
	"context"
	"crypto/tls"
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
	"github.com/skald-saga/skald/internal/retry"
)

// Headers of a request that drives a letter, in addition to Idempotency-Key
// (dlq.Drive.IdempotencyKey) and the headers carried over from the record (dlq.CarryOverHTTP).
const (
	HeaderMessageID     = "X-Dlq-Message-Id" // root of the lineage
	HeaderRedriveID     = "X-Dlq-Redrive-Id" // only for a bulk redrive
	HeaderGeneration    = "X-Dlq-Generation"
	HeaderAttempt       = "X-Dlq-Attempt"
	HeaderRevision      = "X-Dlq-Revision"       // 0: never edited
	HeaderOriginalTopic = "X-Dlq-Original-Topic" // percent-encoded unless visible ASCII
	headerIdempotency   = "Idempotency-Key"
)

const (
	maxAnswer = 16 << 10 // bytes of a response that are read, only so that the connection can be reused
	maxShown  = 512      // bytes of a response that are kept with a failure
)

// HTTPConfig configures an HTTP driver. Policy, Now and Log are required.
type HTTPConfig struct {
	Policy      *egress.Policy     // checked for every connection, on the resolved address
	TLS         func() *tls.Config // for egress.Policy.NewClient; nil: the system's authorities
	Timeout     time.Duration      // for one request including the response; 0: 10 s
	Concurrency int                // maximum number of concurrent requests over all batches; 0: 8
	Version     string             // shown in the User-Agent
	Now         func() time.Time
	Log         *slog.Logger
}

// HTTP drives letters to HTTP targets, with the payload as the body, and the key and headers as
// defined by dlq.CarryOverHTTP. A 2xx status acknowledges the letter. 4xx, 503 and errors before
// anything was sent are failures. Everything else, in particular a timeout, is uncertain. This
// includes a request that was sent twice because a reused connection broke (egress.Client.Send).
type HTTP struct {
	client *egress.Client
	places chan struct{}
	cfg    HTTPConfig
}

// NewHTTP returns a driver. Call Close to close its connections.
func NewHTTP(cfg HTTPConfig) *HTTP {
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Concurrency == 0 {
		cfg.Concurrency = 8
	}
	return &HTTP{
		cfg: cfg, places: make(chan struct{}, cfg.Concurrency),
		client: cfg.Policy.NewClient(cfg.Timeout, cfg.Concurrency, cfg.TLS),
	}
}

// Close closes idle connections.
func (h *HTTP) Close() { h.client.Close() }

// AtOnce is the maximum number of concurrent requests.
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
		results[i] = dlq.Result{Outcome: dlq.Withdrawn, Error: "the node stopped before the letter was sent", StartedAt: now, EndedAt: now}
	}
	sending.Wait()
	return results
}

func (h *HTTP) one(ctx context.Context, d *dlq.Drive) dlq.Result {
	r := dlq.Result{StartedAt: h.cfg.Now()}
	if carried, err := d.CarryOverHTTP(); err != nil {
		r.Outcome, r.TooLarge = dlq.FailedDrive, true
		r.Error = fmt.Sprintf("%v: retry the letter with headers_patch or key_base64. Bytes: key %d, headers %s", err,
			len(d.Send.Key), dlq.HeaderSizes(d.Send.Headers))
	} else {
		h.request(ctx, d, &carried, &r)
	}
	r.EndedAt = h.cfg.Now()
	return r
}

// request sends the letter and records the result in r.
func (h *HTTP) request(ctx context.Context, d *dlq.Drive, carried *dlq.CarriedOverHTTP, r *dlq.Result) {
	req, err := http.NewRequestWithContext(ctx, cmp.Or(d.To.Method, http.MethodPost), d.To.URL, http.NoBody)
	if err != nil {
		r.Outcome, r.Error = dlq.FailedDrive, "invalid URL or method"
		return
	}
	req.Header.Set("User-Agent", "skald/"+h.cfg.Version)
	for _, h := range carried.Headers { // first, so that none of them overrides the headers below
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
	res, repeated, err := h.client.Send(req, d.Send.Payload)
	if err != nil {
		r.Outcome, r.Error, r.Unreached = h.failed(ctx, d, err)
		if repeated {
			r.Unreached = false
			r.Outcome = dlq.Uncertain // the first transmission may have arrived
		}
		return
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer)) // only the status matters
	r.StatusCode = res.StatusCode
	switch code := res.StatusCode; {
	case code/100 == 2:
		r.Outcome = dlq.Acknowledged
		return
	case !repeated && (code/100 == 4 || code == http.StatusServiceUnavailable):
		r.Outcome = dlq.FailedDrive
	default:
		r.Outcome = dlq.Uncertain
	}
	if retry.AsksToWait(res.StatusCode) {
		r.RetryAfter = retry.After(res.Header.Get("Retry-After"), h.cfg.Now())
	}
	problem := fmt.Sprintf("the target answered %d", res.StatusCode)
	if shown := strings.TrimSpace(dlq.Storable(string(answer[:min(len(answer), maxShown)]), maxShown)); shown != "" {
		problem += ": " + shown
	}
	r.Error = problem
}

// failed describes an error for the tenant without addresses, which only operators should see and
// which are logged instead. If the error occurred before the request was written, the letter has
// certainly not arrived.
func (h *HTTP) failed(
	ctx context.Context, d *dlq.Drive, err error,
) (outcome dlq.AttemptOutcome, words string, unreached bool) {
	log := h.cfg.Log.With(slog.String("letter_id", d.ID.String()), slog.Int("attempt", d.Number))
	var denied *egress.Denied
	var lookup *net.DNSError
	var dial *net.OpError
	var call *url.Error
	outcome, words = dlq.Uncertain, "the connection failed"
	switch {
	case errors.As(err, &denied):
		outcome, words = dlq.FailedDrive, "the egress policy does not allow the address"
		log.WarnContext(ctx, "egress denied", slog.Any("error", denied))
	case errors.As(err, &lookup):
		outcome, words, unreached = dlq.FailedDrive, "the host name cannot be resolved", true
	case egress.Rejected(err) != "":
		outcome, words, unreached = dlq.FailedDrive, "the TLS handshake failed: "+egress.Rejected(err), true
	case egress.RefusedUs(err):
		words = "the TLS handshake failed: the target rejected Skald's client certificate, or requires one and got none"
	case errors.As(err, &dial) && dial.Op == "dial":
		outcome, words, unreached = dlq.FailedDrive, "the connection could not be established", true
	case ctx.Err() != nil:
		words = "the node stopped before the target answered"
	case errors.As(err, &call) && call.Timeout():
		words = "the target did not answer in time"
	}
	log.DebugContext(ctx, "sending a dead letter failed", slog.Any("error", err))
	return outcome, words, unreached
}

// typeOf guesses the content type of the payload.
func typeOf(payload []byte) string {
	switch dlq.EncodingOf(payload) {
	case dlq.JSON:
		return "application/json"
	case dlq.Text:
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}
