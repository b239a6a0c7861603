package jobdb

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
)

// ListRuns implements jobrun.Runs.
func (st *Jobs) ListRuns(
	ctx context.Context, tenant uuid.UUID, f jobrun.Filter, p page.ByTime,
) (found page.Of[jobrun.Run], err error) {
	query, args := pageOfRuns(tenant, f, p)
	var runs []jobrun.Run
	err = st.db.ListTenant(ctx, tenant, query, func(rows *sql.Rows) error {
		var skipped string
		r, err := st.db.ScanRun(rows, &skipped)
		r.SkipReason = skipped
		runs = append(runs, r)
		return shown(err)
	}, args...)
	if err != nil {
		return found, postgres.Wrap("list job runs", err)
	}
	if found = page.Cut(p, runs); p.Total {
		err = postgres.CountPage(ctx, st.db.DB, tenant, p, &found,
			func() (string, []any) {
				return countOfRuns(tenant, f, page.ByTime{TotalCap: p.TotalCap, Snapshot: p.Snapshot})
			})
	}
	return found, postgres.Wrap("count job runs", err)
}

// Look counts the runs after p.After that match a filter, in a transaction of their tenant.
func (st *Jobs) Look(
	ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, f jobrun.Filter, p page.ByTime,
) (bulk.Seen, error) {
	query, args := countOfRuns(tenant, f, p)
	at, visible, n, err := postgres.Look(ctx, tx, query, args...)
	return bulk.Seen{At: at, Snapshot: visible, Count: n}, err
}

// pageOfRuns returns the query for one page and one additional row, which shows whether there is a
// next page. The query finds the ids first, so that it does not read rows outside of the page, each
// of which may contain megabytes.
func pageOfRuns(tenant uuid.UUID, f jobrun.Filter, p page.ByTime) (query string, args []any) {
	o := orderOf(f)
	parts, args := selectRuns(tenant, f, p, o.columns("r")+", r.id", o.by("r")+fmt.Sprint(" LIMIT ", p.Offset+p.Limit+1))
	return "SELECT " + RunColumns + ", coalesce(e.reason, '') FROM (SELECT * FROM (" +
		strings.Join(parts, " UNION ALL ") + ") AS p" +
		o.by("p") + fmt.Sprint(" LIMIT ", p.Limit+1, " OFFSET ", p.Offset) +
		") AS page JOIN jobs.job_runs r ON r.tenant_id = $1 AND r.id = page.id" + whySkipped + o.by("page"), args
}

// order is the sort order of a list: by a text, if there is one, in the order of its bytes, then by
// a time, and then by the id.
type order struct {
	text, at  string // columns
	ascending bool
}

func orderOf(f jobrun.Filter) order {
	o := order{at: "created_at", ascending: f.Ascending}
	switch {
	case f.Sort.OfText():
		o.text = string(f.Sort)
	case f.Sort != jobrun.ByCreation:
		o.at = string(f.Sort)
	}
	return o
}

// columns returns the columns of the order without the id.
func (o order) columns(alias string) string {
	if o.text != "" {
		return alias + "." + o.text + ", " + alias + "." + o.at
	}
	return alias + "." + o.at
}

// by returns the ORDER BY terms for the rows of an alias.
func (o order) by(alias string) string {
	direction, _ := postgres.Direction(o.ascending)
	text := ""
	if o.text != "" {
		_, before := postgres.Direction(!o.ascending)
		text = alias + "." + o.text + " USING ~" + before + "~, "
	}
	return " ORDER BY " + text + alias + "." + o.at + direction + ", " + alias + ".id" + direction
}

// after adds the condition that a run follows a given position.
func (o order) after(w *postgres.Where, key string, place page.TimeID) {
	_, than := postgres.Direction(o.ascending)
	if o.text == "" {
		w.Add("(r."+o.at+", r.id) "+than+" (?, ?)", place.At, place.ID)
		return
	}
	w.Add("r."+o.text+" ~"+than+"=~ ?", key) // row comparisons do not use the order of bytes
	w.Add("(r."+o.text+" ~"+than+"~ ? OR (r."+o.at+", r.id) "+than+" (?, ?))", key, place.At, place.ID)
}

// countOfRuns returns the query for a total. Up to a bound it has the same order as the list.
// Without an order, the planner would scan the table from its start, expecting to find enough rows
// early.
func countOfRuns(tenant uuid.UUID, f jobrun.Filter, p page.ByTime) (query string, args []any) {
	count, tail := "count(*)", ""
	if most := p.TotalCap; most > 0 {
		count = fmt.Sprintf("least(count(*), %d)", most+1)
		tail = orderOf(f).by("r") + fmt.Sprint(" LIMIT ", most+1)
	}
	parts, args := selectRuns(tenant, f, p, "r.id", tail)
	return "SELECT " + count + " FROM (" + strings.Join(parts, " UNION ALL ") + ") AS found", args
}

// selectRuns returns queries that together select each matching run once, each followed by tail. It
// splits the list into as many queries as are needed for an index to serve each of them.
func selectRuns(
	tenant uuid.UUID, f jobrun.Filter, p page.ByTime, columns, tail string,
) (parts []string, args []any) {
	table := "jobs.job_runs"
	if f.Label != "" {
		table = "jobs.tenant_runs"
	}
	for _, alternative := range alternatives(f) {
		w := runWhere{postgres.Where{Args: args}}
		w.runs(tenant, f)
		for _, c := range alternative {
			w.Add(c.condition, c.args...)
		}
		if p.Snapshot != "" {
			w.Add(postgres.WasThere("r", "?"), string(p.Snapshot))
		}
		if p.After != nil {
			orderOf(f).after(&w.Where, f.AfterKey, *p.After)
		}
		parts = append(parts, "(SELECT "+columns+" FROM "+table+" r WHERE "+w.Text()+tail+")")
		args = w.Args
	}
	return parts, args
}

// condition is the condition of one part of a list.
type condition struct {
	condition string
	args      []any
}

// due is the time since which a run with alias r may be late: its slot or, if it repeats another
// run and therefore has that run's slot, the time when it became due.
const due = `CASE WHEN r.retry_number > 0 OR r.trigger || '' = '` + string(jobrun.ByLetter) + `'
  THEN r.available_at ELSE r.scheduled_for END`

// alternatives returns the conditions that split a list into parts: all combinations of conditions
// that different indexes serve.
func alternatives(f jobrun.Filter) [][]condition {
	all := [][]condition{nil}
	either := func(ways ...condition) {
		var out [][]condition
		for _, before := range all {
			for _, way := range ways {
				out = append(out, append(append([]condition{}, before...), way))
			}
		}
		all = out
	}
	if f.WorkerID != uuid.Nil { // one partial index for ended runs, one for held runs
		either(condition{"r.assigned_worker_id = ? AND r.finished_at IS NOT NULL", []any{f.WorkerID}},
			condition{"r.assigned_worker_id = ? AND r.phase" + WithWorker, []any{f.WorkerID}},
			condition{"r.assigned_worker_id = ? AND r.phase" + WaitsAgain, []any{f.WorkerID}})
	}
	if f.RootRunID != uuid.Nil {
		either(condition{"r.id = ?", []any{f.RootRunID}}, condition{"r.root_run_id = ? AND r.retry_number > 0", []any{f.RootRunID}})
	}
	if f.LateByMS > 0 { // idx_job_runs_late covers this, together with the runs that have not started
		late := float64(f.LateByMS) / 1000
		either(condition{"r.late AND r.started_at - " + due + " >= make_interval(secs => ?)", []any{late}},
			condition{"r.started_at IS NULL AND r.phase" + Unfinished +
				" AND r.scheduled_for <= clock_timestamp() - make_interval(secs => ?)" +
				" AND " + due + " <= clock_timestamp() - make_interval(secs => ?)", []any{late, late}})
	}
	if f.Sort == jobrun.BySlot && len(all) == 1 { // idx_job_runs_state has each phase in this order
		of := f.States
		if len(of) == 0 {
			of = jobrun.States
		}
		var each []condition
		for _, phase := range phasesOf(of) {
			each = append(each, condition{"r.phase = '" + phase + "'", nil})
		}
		either(each...)
	}
	return all
}

// runWhere collects conditions on runs.
type runWhere struct{ postgres.Where }

func (w *runWhere) runs(tenant uuid.UUID, f jobrun.Filter) {
	w.Add("r.tenant_id = ?", tenant)
	for _, eq := range []struct{ column, value string }{
		{"r.queue", f.Queue}, {"r.correlation_id", f.CorrelationID}, {"r.error_code", f.ErrorCode},
		{"r.concurrency_key", f.ConcurrencyKey},
	} {
		if eq.value != "" {
			w.Add(eq.column+" = ?", eq.value)
		}
	}
	w.Prefix("r.correlation_id", f.CorrelationPrefix)
	for _, eq := range []struct {
		column string
		value  uuid.UUID
	}{
		{"r.definition_id", f.DefinitionID}, {"r.saga_id", f.SagaID}, {"r.backfill_id", f.BackfillID},
	} {
		if eq.value != uuid.Nil {
			w.Add(eq.column+" = ?", eq.value)
		}
	}
	if f.Queue != "" && f.Queue != jobrun.DefaultQueue {
		w.Add("r.queue <> 'default'") // the predicate of idx_job_runs_queue
	}
	if f.Label != "" {
		w.Add("r.labels <> '{}' AND r.labels @> ARRAY[?::text]", f.Label)
	}
	if len(f.Triggers) > 0 {
		w.Add("r.trigger" + postgres.Among(f.Triggers))
	}
	switch f.Sort {
	case jobrun.ByEnd, jobrun.ByCorrelation:
		w.Add("r." + string(f.Sort) + " IS NOT NULL")
	case jobrun.ByCreation, jobrun.BySlot:
	}
	if f.GaveUp != nil {
		not := ""
		if !*f.GaveUp {
			not = "NOT "
		}
		w.Add(not + "(r.phase" + postgres.Among([]jobrun.State{jobrun.Failed, jobrun.TimedOut}) +
			" AND r.saga_id IS NULL AND " + NoneFollows("r") + ")")
	}
	slots := !f.ScheduledFrom.IsZero() || !f.ScheduledTo.IsZero()
	switch {
	case len(f.States) > 0:
		w.runStates(f.States)
	case slots: // so that idx_job_runs_state serves slots in any state
		w.runStates(jobrun.States)
	}
	for _, b := range []struct {
		condition string
		at        time.Time
	}{
		{"r.scheduled_for >= ?", f.ScheduledFrom}, {"r.scheduled_for < ?", f.ScheduledTo},
		{"r.created_at >= ?", f.CreatedFrom},
		{"r.created_at < ?", f.CreatedTo}, {"r.finished_at >= ?", f.FinishedFrom}, {"r.finished_at < ?", f.FinishedTo},
	} {
		if !b.at.IsZero() {
			w.Add(b.condition, b.at)
		}
	}
}

// NoneFollows is the condition that a run has no retry and no rerun.
func NoneFollows(alias string) string {
	return `NOT EXISTS (SELECT FROM jobs.job_runs n
	                     WHERE n.tenant_id = ` + alias + `.tenant_id AND n.root_run_id = ` + alias + `.root_run_id
	                       AND n.retry_number > 0 AND n.retry_number > ` + alias + `.retry_number)`
}

// runStates adds a condition on states, expressed as phases, which the indexes contain.
func (w *runWhere) runStates(of []jobrun.State) {
	w.Add("r.phase" + postgres.Among(phasesOf(of)))
	if slices.Contains(of, jobrun.Assigned) != slices.Contains(of, jobrun.Running) {
		w.Add("r.state" + postgres.Among(of))
	}
}

// phasesOf returns the distinct phases (jobs.job_runs.phase) of runs in the given states.
func phasesOf(states []jobrun.State) (phases []string) {
	for _, s := range states {
		phase := string(s)
		if s == jobrun.Assigned || s == jobrun.Running {
			phase = "HELD"
		}
		if !slices.Contains(phases, phase) {
			phases = append(phases, phase)
		}
	}
	return phases
}
