// Package ui serves the pages for people under /ui/ and the manual under /docs/. Each subject
// registers its pages with the kit. The pages show only what the API returns to the visitor.
package ui

import (
	"net/http"

	"github.com/skald-saga/skald/internal/ui/accesspages"
	"github.com/skald-saga/skald/internal/ui/jobpages"
	"github.com/skald-saga/skald/internal/ui/letterpages"
	"github.com/skald-saga/skald/internal/ui/manual"
	"github.com/skald-saga/skald/internal/ui/sagapages"
	"github.com/skald-saga/skald/internal/ui/systempages"
	"github.com/skald-saga/skald/internal/ui/web"
	"github.com/skald-saga/skald/internal/ui/workflowpages"
)

// Config configures the pages.
type Config = web.Config

// Link is a template for a link to another tool.
type Link = web.Link

// SingleSignOn describes how visitors sign in with an identity provider.
type SingleSignOn = web.SingleSignOn

// Refusal is the reason why a page cannot be shown.
type Refusal = web.Refusal

// New returns the handler of the pages.
func New(cfg Config) (http.Handler, error) {
	k, err := web.New(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.ManualOnly {
		return k, manual.Register(k)
	}
	for _, register := range []func(*web.Kit) error{
		manual.Register, systempages.Register, sagapages.Register, workflowpages.Register, letterpages.Register,
		jobpages.Register, accesspages.Register,
	} {
		if err := register(k); err != nil {
			return nil, err
		}
	}
	return k, nil
}
