// Package jobpages contains the pages of jobs: definitions, the calendar, runs with their logs, and
// workers.
//
// Files, each on top of those before it: words, runrow, bars, definitions, workers, definition,
// definition_form, beside, gantt, run, ways, definition_actions, runs, bulks, run_actions, takers,
// backfills, calendar, events, pages, queue, selected, worker_actions.
package jobpages

import (
	"embed"

	"github.com/skald-saga/skald/internal/ui/web"
)

//go:embed templates
var templates embed.FS

type pages struct{ kit *web.Kit }

// Register adds the pages to k.
func Register(k *web.Kit) error {
	p := &pages{k}
	k.Page("GET /ui/jobs", p.definitions)
	k.Action("/ui/jobs/new", p.create)
	k.Page("GET /ui/jobs/calendar", p.calendar)
	k.Page("GET /ui/jobs/events", p.events)
	k.Action("/ui/jobs/events/publish", p.publish)
	k.Page("GET /ui/jobs/{definition}", p.definition)
	k.Action("/ui/jobs/{definition}/actions/edit", p.edit)
	k.Action("/ui/jobs/{definition}/actions/pause", p.pause)
	k.Action("/ui/jobs/{definition}/actions/resume", p.resume)
	k.Action("/ui/jobs/{definition}/actions/delete", p.remove)
	k.Action("/ui/jobs/{definition}/actions/run", p.run)
	k.Action("/ui/jobs/{definition}/actions/backfill", p.backfill)
	k.Page("GET /ui/backfills/{backfill}", p.backfillProgress)
	k.Action("/ui/backfills/{backfill}/cancel", p.cancelBackfill)
	k.Action("/ui/backfills/{backfill}/resume", p.resumeBackfill)
	k.Page("GET /ui/runs", p.runs)
	k.Action("/ui/runs/selected", p.selected)
	k.Page("GET /ui/runs/{run}", p.runDetail)
	k.Action("/ui/runs/{run}/actions/{action}", p.runAction)
	k.Page("GET /ui/run-bulks", p.bulks)
	k.Action("/ui/run-bulks/new", p.newBulk)
	k.Page("GET /ui/run-bulks/{bulk}", p.bulk)
	k.Action("/ui/run-bulks/{bulk}/cancel", p.cancelBulk)
	k.Action("/ui/run-bulks/{bulk}/resume", p.resumeBulk)
	k.Page("GET /ui/workers", p.workers)
	k.Page("GET /ui/workers/{worker}", p.worker)
	k.Action("/ui/workers/{worker}/actions/{action}", p.workerAction)
	k.Page("GET /ui/queues/{queue}", p.queue)
	k.Action("/ui/queues/{queue}/hold", p.holdQueue)
	k.Action("/ui/queues/{queue}/release", p.releaseQueue)
	k.Action("/ui/scheduler/step-down", p.stepDown)
	return k.Templates(templates)
}
