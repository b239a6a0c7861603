package app

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/httpkit/compress"
	"github.com/skald-saga/skald/internal/ui"
)

// front returns the handler for all paths: the API, the metrics, the pages, and "/", which lists
// them.
func (n *node) front(api http.Handler) (http.Handler, error) {
	edge, metrics := n.metrics.Instrument(pointBeforeReply(published(baseOf(n.cfg.Server), api))), n.metrics.Handler()
	base := n.cfg.Server.BasePath
	manual, err := n.pages(api)
	if err != nil {
		return nil, err
	}
	pages := manual
	if n.cfg.UI.Mode == config.UIOff {
		pages = nil
	}
	// Not a ServeMux, which would redirect unclean paths without a problem document.
	all := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["X-Content-Type-Options"] = asDeclared
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		switch path := r.URL.Path; {
		case path == "/metrics" && r.Method == http.MethodGet:
			n.database.refresh(r.Context()) // needed where no load balancer probes readiness
			metrics.ServeHTTP(w, r)
		case pages != nil && strings.HasPrefix(path, "/ui/"):
			pages.ServeHTTP(w, r)
		case pages != nil && reads && (path == "/ui" || path == "/" && strings.Contains(r.Header.Get("Accept"), "text/html")):
			http.Redirect(w, r, base+"/ui/", http.StatusSeeOther)
		case manual != nil && strings.HasPrefix(path, "/docs/"):
			manual.ServeHTTP(w, r)
		case manual != nil && reads && path == "/docs":
			http.Redirect(w, r, base+"/docs/", http.StatusSeeOther)
		case reads && path == "/participant.openapi.json":
			contractOfParticipants(w)
		case reads && path == "/":
			whereThingsAre(w, base, pages != nil)
		default:
			edge.ServeHTTP(w, r)
		}
	})
	return compress.New(toBrowsers(n.cfg.Server.PublicURL, belowBase(base, all)))
}

// toBrowsers returns a handler that treats requests as made over TLS if the configuration says that
// browsers use TLS. Cookies are then Secure, even if the last hop is plain HTTP.
func toBrowsers(public string, all http.Handler) http.Handler {
	if !strings.HasPrefix(public, "https://") {
		return all
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header["X-Forwarded-Proto"] = []string{"https"}
		all.ServeHTTP(w, r)
	})
}

// baseOf returns the prefix that a proxy adds to the paths of this server, "" if none. A base path
// is also usable by clients that bypass the proxy; the path of a public URL exists only at the
// proxy.
func baseOf(s config.Server) string {
	if s.BasePath != "" {
		return s.BasePath
	}
	if u, err := url.Parse(s.PublicURL); err == nil && strings.Trim(u.Path, "/") != "" {
		return strings.TrimSuffix(s.PublicURL, "/")
	}
	return ""
}

// published returns a handler for the API whose Location headers and links begin with base. The
// pages call the API without the base.
func published(base string, api http.Handler) http.Handler {
	if base == "" {
		return api
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.ServeHTTP(&publishedResponse{w, base}, r.WithContext(httpkit.WithBase(r.Context(), base)))
	})
}

type publishedResponse struct {
	http.ResponseWriter
	base string
}

func (p *publishedResponse) WriteHeader(status int) {
	if at := p.Header().Get("Location"); strings.HasPrefix(at, "/") {
		p.Header().Set("Location", p.base+at)
	}
	p.ResponseWriter.WriteHeader(status)
}

// Unwrap supports http.ResponseController.
func (p *publishedResponse) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// belowBase returns a handler for all paths below base, the path at which a proxy exposes this
// server, and for the same paths without base.
func belowBase(base string, all http.Handler) http.Handler {
	if base == "" {
		return all
	}
	below := http.StripPrefix(base, all)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == base:
			http.Redirect(w, r, base+"/", http.StatusSeeOther)
		case strings.HasPrefix(r.URL.Path, base+"/"):
			below.ServeHTTP(w, r)
		default: // a proxy has stripped the base path
			all.ServeHTTP(w, r)
		}
	})
}

// asDeclared prevents browsers from guessing a content type other than the declared one, because
// most responses contain text from clients. The header value is shared to avoid allocations and is
// never modified.
var asDeclared = []string{"nosniff"}

// pages returns the handler for the pages and the manual, nil if there are none. The manual is
// served even without the other pages, because problem documents link to it.
func (n *node) pages(api http.Handler) (http.Handler, error) {
	c := n.cfg.UI
	if !n.cfg.Has(config.RoleAPI) {
		return nil, nil
	}
	cfg := ui.Config{
		API: api, Base: n.cfg.Server.BasePath, PublicURL: n.cfg.Server.PublicURL, ReadOnly: c.Mode == config.UIReadOnly,
		ManualOnly: c.Mode == config.UIOff, Title: c.Title, Colour: c.Colour,
		Within: n.cfg.Server.RequestTimeout,
		Now:    n.now, NewID: func() string { return newID().String() }, Log: n.opt.Log,
	}
	cfg.SingleSignOn = singleSignOn(n.cfg, signOn(n.cfg, n.checker))
	for _, l := range c.Templates() {
		cfg.Links = append(cfg.Links, ui.Link(l))
	}
	return ui.New(cfg)
}

// contractOfParticipants responds with the contract that participants must implement. It is not
// part of Skald's own contract, because Skald is the caller of these operations.
func contractOfParticipants(w http.ResponseWriter) {
	doc, err := api.ParticipantContract()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError) // a test ensures that the document can be read
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(doc) // the client has disconnected, or has the response
}

// whereThingsAre responds to programs that request "/" with a list of paths.
func whereThingsAre(w http.ResponseWriter, base string, pages bool) {
	places := map[string]string{
		"api": base + "/api/v1", "contract": base + "/openapi.json",
		"participants": base + "/participant.openapi.json", "health": base + "/healthz",
		"docs": base + "/docs/",
	}
	if pages {
		places["ui"] = base + "/ui/"
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Add("Vary", "Accept")
	_ = json.NewEncoder(w).Encode(places) // the client has disconnected, or has the response
}
