// Package jobpages has the pages of jobs: definitions, the calendar, runs with their logs, workers.
//
// Files, each on top of those before it: pages.
package jobpages

import "github.com/skald-saga/skald/internal/ui/web"

// Register adds the pages to k.
func Register(*web.Kit) error {
	return nil
}
