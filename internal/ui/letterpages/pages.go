// Package letterpages has the pages of dead letters: groups of errors, letters, topics, redrives.
//
// Files, each on top of those before it: pages.
package letterpages

import "github.com/skald-saga/skald/internal/ui/web"

// Register adds the pages to k.
func Register(*web.Kit) error {
	return nil
}
