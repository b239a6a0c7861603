// Package web is the toolkit for the pages: it renders pages, sends actions, and calls the API of
// this process on behalf of the visitor. Pages show and offer only what the API returns to that
// person, because the generated client of the contract is their only access to data.
//
// Every page is a GET whose URL contains its whole state. Every action is a form that works without
// scripts; scripts make pages live and save round trips.
//
// Files, each on top of those before it: words, badges, calls, drawing, charts, redrive, bidi,
// jsontree, documents, timescale, axislabels, linediff, problems, spans, local, tenant, assets,
// shared, kit, tag, cards, regions, templates, pages, action, planned, stale, fields, members,
// operation, actions, ready, list, sorting, runbulk, web.
package web

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"

	"github.com/skald-saga/skald/api/client"
)

// New returns a kit without pages.
func New(cfg Config) (*Kit, error) {
	api, err := client.NewClientWithResponses(
		"http://skald", client.WithHTTPClient(&http.Client{Transport: local{cfg.API}}))
	if err != nil {
		return nil, fmt.Errorf("web UI: %w", err)
	}
	k := &Kit{Config: cfg, Client: api, pages: map[string]*parsed{}, mux: http.NewServeMux(),
		drawn:   Shared[[]region]{For: drawnFor},
		started: rand.Text()}
	if k.assets, err = loadAssets(); err != nil {
		return nil, fmt.Errorf("web UI: read assets: %w", err)
	}
	k.Handle("GET /ui/assets/", http.HandlerFunc(k.assets.serve))
	k.Handle("GET /ui/of/{tenant}/api/v1/", http.HandlerFunc(k.forTenant))
	k.Page("/ui/", func(*Visit) (*Page, error) { return nil, ErrNoPage })
	return k, k.Templates(files)
}

// ServeHTTP implements http.Handler.
func (k *Kit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if err := k.refuse(r); err != nil {
		v := k.visit(r)
		k.render(w, v, k.problem(v, err))
		return
	}
	k.mux.ServeHTTP(w, r)
}

// refuse returns the reason why a request that may change something is rejected, regardless of its
// path.
func (k *Kit) refuse(r *http.Request) error {
	switch {
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		return nil
	case !SameOrigin(r):
		return crossSite
	case k.ReadOnly && !strings.HasPrefix(r.URL.Path, "/ui/sign-"):
		return readOnly
	}
	return nil
}

var crossOrigin = http.NewCrossOriginProtection()

// SameOrigin reports whether a request proves that it was sent by a page of this server. Browsers
// send this proof with every form. A request without the headers is not proof, and neither is one
// that was not sent by a page ("none").
func SameOrigin(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	proof := site != "none" && (site != "" || r.Header.Get("Origin") != "")
	return proof && crossOrigin.Check(r) == nil
}

// policy allows what this server itself sends, and nothing inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; form-action 'self'; base-uri 'self'; frame-ancestors 'none'"
