// Package web is the kit of the pages for people: it renders pages, sends actions, and calls the API of this
// process as the visitor. What a page shows and offers is what the API answers that person, and nothing else: the
// only way to data is the generated client of the contract.
//
// Every page is a GET whose URL holds its whole state. Every action is a form that works without scripts; scripts
// make pages live and save round trips.
//
// Files, each on top of those before it: words, badges, documents, timescale, linediff, problems, local, assets, kit,
// templates, pages, action, actions, list, web.
package web

import (
	"fmt"
	"net/http"

	"github.com/skald-saga/skald/api/client"
)

// New returns a kit without pages.
func New(cfg Config) (*Kit, error) {
	api, err := client.NewClientWithResponses(
		"http://skald", client.WithHTTPClient(&http.Client{Transport: local{cfg.API}}))
	if err != nil {
		return nil, fmt.Errorf("web UI: %w", err)
	}
	k := &Kit{Config: cfg, Client: api, pages: map[string]*parsed{}, mux: http.NewServeMux()}
	if k.assets, err = loadAssets(); err != nil {
		return nil, fmt.Errorf("web UI: read assets: %w", err)
	}
	k.mux.HandleFunc("GET /ui/assets/", k.assets.serve)
	k.Page("/ui/", func(*Visit) (*Page, error) { return nil, ErrNoPage })
	return k, k.Templates(files)
}
