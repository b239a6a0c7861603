package player

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/webhooks"
	"github.com/skald-saga/skald/internal/saga/certification"
)

// Config says where the participant is and how it is tested.
type Config struct {
	URL          string // URL of the action; {step} in it is replaced by the step's name
	Compensation string // URL of the compensation; "" means URL
	Effects      string // URL that returns the number of effects of a key; "" if there is none
	Step         string
	Payload      json.RawMessage // nil means the payload of the vectors
	Secret       string          // secret that signs the calls; "" means unsigned calls
	Keys         [][]byte        // additional signing keys
	Tenant       string          // tenant of calls that need only one; "" means the default tenant
	// Dial opens all connections. nil means net.Dialer, or the proxy from the environment.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	TLS  *tls.Config // nil means the system's authorities and no client certificate
	// Progress is called after each vector. It may be nil.
	Progress func(played, planned int)
	// Restart restarts the participant. It returns when the old process has ended. nil skips
	// everything that needs a restart.
	Restart func(context.Context) error
	RaceFor time.Duration // how long races are repeated under load; 0 means not at all
	Robust  bool          // also test what leads to warnings: large bodies, slow sending, gzip, HTTP/1.0
	Timeout time.Duration // timeout of one call
	Version string
	// Later: the participant answers later, and only that is tested. Its reports must arrive at
	// Reports within LaterFor. If Reports is nil, they are received on CallbackListen, which
	// participants reach by CallbackURL if that is not "".
	Later                       bool
	LaterFor                    time.Duration
	Reports                     Receiver
	CallbackListen, CallbackURL string
	forgets                     time.Duration // wait for a report after the restart; 0 means LaterFor; shorter in tests

	// leaves is called before a call is sent whose connection will be cut. The function it returns
	// is called before the cut. nil cuts the connection as soon as the call is sent. Tests use it
	// to make sure that the call has begun.
	leaves func(*http.Request) (begun func(context.Context))
}

// Receiver receives a participant's reports on the outcome of calls that it has answered later.
// Heartbeats are not reports.
type Receiver interface {
	// Callback returns the URL for the reports of the call with the given name, which is unique.
	// undo means that the call is a compensation. again means that the first report is rejected and
	// must be sent again.
	Callback(call string, undo, again bool) string
	// First returns the first accepted report of a call, or nil if there is none yet.
	First(ctx context.Context, call string) (*certification.Told, error)
}

// How often calls without a definite answer are repeated, and other limits.
const (
	doubts  = 4
	later   = 40
	soon    = 6 // attempts to reach a participant that was just started: 2.5 s
	pause   = 50 * time.Millisecond
	settle  = 20 // polls of the effects until they are as expected
	orders  = 8  // sagas that are tried until every connection was cut before its answer came
	clients = 8  // clients under load

	inboxEvery = 5 * pause // interval of the checks for reports that arrive elsewhere
)

// maxAnswer is how much of an answer is read.
const maxAnswer = 1 << 20

// marked is a header of all calls of a certification, by which a participant can recognize them in
// its logs.
const marked = "X-Saga-Certification"

const defaultTenant = "00000000-0000-0000-0000-000000000001"

type player struct {
	Config
	client    *http.Client
	transport *http.Transport // settings of client
	keys      [][]byte        // keys for signing
}

func newPlayer(cfg Config) (*player, error) {
	c := &player{Config: cfg}
	if c.Compensation == "" {
		c.Compensation = c.URL
	}
	if c.Step == "" {
		c.Step = "charge"
	}
	if c.Tenant == "" {
		c.Tenant = defaultTenant
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	if c.LaterFor == 0 {
		c.LaterFor = 30 * time.Second
	}
	if c.CallbackListen == "" {
		c.CallbackListen = "127.0.0.1:0"
	}
	for _, text := range []string{c.URL, c.Compensation, c.Effects, c.CallbackURL} {
		u, err := url.Parse(strings.ReplaceAll(text, "{step}", "step"))
		if text != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			return nil, fmt.Errorf("%q must be an http or https URL", text)
		}
	}
	if cfg.Secret != "" {
		key, err := webhooks.ParseSecret(cfg.Secret)
		if err != nil {
			return nil, err
		}
		c.keys = append(c.keys, key)
	}
	c.keys = append(c.keys, cfg.Keys...)
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableCompression: true, MaxIdleConnsPerHost: clients * clients,
		TLSClientConfig: c.TLS.Clone(),
	}
	if c.Dial != nil {
		transport.Proxy, transport.DialContext = nil, c.Dial
	} else {
		c.Dial = (&net.Dialer{Timeout: c.Timeout}).DialContext
	}
	if c.Progress == nil {
		c.Progress = func(int, int) {}
	}
	c.transport = transport
	c.client = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       c.Timeout,
	}
	return c, nil
}

// escaped returns a step's name as written in keys, headers and paths.
func escaped(step string) string { return url.PathEscape(step) }

func (c *player) do(req *http.Request) certification.Reply {
	res, err := c.client.Do(req)
	if err != nil {
		return certification.Reply{Error: err.Error()}
	}
	defer res.Body.Close()
	body, err := unpacked(res)
	if err != nil {
		return certification.Reply{Error: err.Error()}
	}
	return certification.Reply{Status: res.StatusCode, Body: string(body)}
}

func unpacked(res *http.Response) ([]byte, error) {
	if res.Header.Get("Content-Encoding") != "gzip" {
		return io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	}
	reader, err := gzip.NewReader(res.Body)
	if err != nil {
		return nil, fmt.Errorf("read a gzip response: %w", err)
	}
	return io.ReadAll(io.LimitReader(reader, maxAnswer))
}

// effectsOf requests the number of effects of a key.
func (c *player) effectsOf(ctx context.Context, key string) (int, error) {
	at, err := url.Parse(c.Config.Effects)
	if err != nil {
		return 0, err
	}
	query := at.Query()
	query.Set("key", key)
	at.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set(marked, "1")
	reply := c.do(req)
	var counted struct {
		Effects *int `json:"effects"`
	}
	if reply.Status != http.StatusOK {
		return 0, errors.New("the effects could not be counted: " + strconv.Itoa(reply.Status) + " " + reply.Error)
	}
	if json.Unmarshal([]byte(reply.Body), &counted) != nil || counted.Effects == nil {
		return 0, fmt.Errorf(`the effects could not be counted: the response must be like {"effects": 1}, not %q`, reply.Body)
	}
	return *counted.Effects, nil
}
