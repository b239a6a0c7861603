// Package workflowpages has the pages of workflows: their versions, how these differ, and their registration.
//
// Files, each on top of those before it: pages.
package workflowpages

import "github.com/skald-saga/skald/internal/ui/web"

// Register adds the pages to k.
func Register(*web.Kit) error {
	return nil
}
