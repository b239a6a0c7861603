package app

import (
	"context"
	"net"
	"strings"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
	"github.com/skald-saga/skald/internal/saga/certification"
	"github.com/skald-saga/skald/internal/saga/sagaapi"
)

// callbacks are the URLs to which participants report deferred answers (decision 0163).
type callbacks struct {
	base   string // "": participants cannot reach this server
	tokens httpkit.Callbacks
}

// addCallbacks adds the callback URLs. Their tokens are signed with the cursor key, which all nodes share.
func (n *node) addCallbacks(ctx context.Context) error {
	key, err := n.secret(ctx, "cursor")
	n.callbacks = callbacks{base: callbackBase(&n.cfg, n.addr), tokens: httpkit.Callbacks{Key: key}}
	return err
}

// callbackBase returns the base URL at which participants reach this server's API. It is the
// configured URL or, if the server can be reached only from its own machine, its address, because
// the participants then run on that machine too. It is "" if no URL is known.
func callbackBase(cfg *config.Config, addr net.Addr) string {
	if s := cfg.Server; s.PublicURL != "" {
		return strings.TrimSuffix(s.PublicURL, "/")
	}
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsLoopback() || !cfg.Has(config.RoleAPI) {
		return ""
	}
	scheme := "http://"
	if cfg.Server.TLSCertFile != "" {
		scheme = "https://"
	}
	return scheme + addr.String() + cfg.Server.BasePath
}

// url returns the callback URL of an attempt, "" if there is none.
func (c *callbacks) url(a reported.Attempt) string {
	if c.base == "" {
		return ""
	}
	return c.base + "/api/v1/step-callbacks/" + c.tokens.Seal(httpkit.CallbackOfStep, a.Bytes())
}

// examination returns the callback URL for a call of a certification, "" if there is none.
func (c *callbacks) examination(of certification.Callback) string {
	if c.base == "" {
		return ""
	}
	return c.base + "/api/v1/step-callbacks/" + c.tokens.Seal(httpkit.CallbackOfExamination, of.Bytes())
}

func (c *callbacks) examined(token string) (of certification.Callback, ok bool) {
	what, ok := c.tokens.Open(httpkit.CallbackOfExamination, token)
	if !ok {
		return of, false
	}
	return certification.CallbackOf(what)
}

func (c *callbacks) open(token string) (a reported.Attempt, ok bool) {
	what, ok := c.tokens.Open(httpkit.CallbackOfStep, token)
	if !ok {
		return a, false
	}
	return reported.AttemptOf(what)
}

// reports returns the API's dependencies for reports.
func (n *node) reports() sagaapi.Callbacks {
	reports := sagaapi.Callbacks{
		Served: n.callbacks.base != "", Open: n.callbacks.open, Address: n.known.Address, Outcome: n.calls.Report,
		Progress: n.calls.Progress,
		Moved:    n.engine.Moved, Counted: n.metrics.Reported, Store: n.sagas, MaxBytes: n.cfg.Engine.MaxResponseBytes,
		Examined: n.callbacks.examined,
	}
	if n.jobStores != nil {
		reports.Inbox = n.jobStores.certified
	}
	return reports
}
