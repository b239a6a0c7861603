package jobpages

import (
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// runRow is a run in a list.
type runRow struct {
	client.JobRun
	Took string // until now, if it has not ended; empty: it has not started
}

func rowsOf(runs []client.JobRun, now time.Time) []runRow {
	rows := make([]runRow, len(runs))
	for i := range runs {
		rows[i] = runRow{JobRun: runs[i], Took: took(&runs[i], now)}
	}
	return rows
}

// took is how long a run has been with its worker.
func took(r *client.JobRun, now time.Time) string {
	if r.StartedAt == nil {
		return ""
	}
	end := now
	if r.FinishedAt != nil {
		end = *r.FinishedAt
	}
	return web.Duration(end.Sub(*r.StartedAt))
}
