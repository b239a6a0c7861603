// Package accesspages has the pages about who may do what and who did what: sign-in, sessions, API keys, the audit
// trail, settings and storage.
//
// Files, each on top of those before it: pages.
package accesspages

import "github.com/skald-saga/skald/internal/ui/web"

// Register adds the pages to k.
func Register(*web.Kit) error {
	return nil
}
