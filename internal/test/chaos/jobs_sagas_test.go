package chaos

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"

	"github.com/skald-saga/skald/internal/saga"
)

// Steps of a campaign's sagas: a booking that can be compensated, and a bill that often fails. Both
// are job runs.
const (
	jobBook   = "saga-book"
	jobUnbook = "saga-unbook"
	jobBill   = "saga-bill"
)

func sagaJobs() []*job {
	spec := func() map[string]any { return map[string]any{"type": "manual", "dead_letter": false} }
	return []*job{
		{name: jobBook, spec: spec(), manner: manner{Least: 10, Most: 400}, attempts: 1},
		{name: jobUnbook, spec: spec(), manner: manner{Least: 10, Most: 200}, attempts: 1},
		{name: jobBill, spec: spec(), manner: manner{Least: 10, Most: 400, Fail: 0.3}, attempts: 1},
	}
}

// sagaRow is the final state of a saga, with the number of successful runs of each job for it.
type sagaRow struct {
	id, state string
	done      map[string]int
}

const sagaFlow = "chaos-jobs"

func (a *asker) registerFlow(ctx context.Context) error {
	r, _ := a.settle(ctx, a.w.dice("workflow"), http.MethodPost, "/api/v1/workflows", "", encode(map[string]any{
		"name": sagaFlow, "steps": []map[string]any{
			{"name": "book", "type": "job", "job": jobBook, "compensation": map[string]any{"job": jobUnbook}},
			{"name": "bill", "type": "job", "job": jobBill, "compensation": "none"},
		},
	}))
	if r.err != nil || r.status >= 300 {
		return fmt.Errorf("register a workflow of jobs: %d %s %w", r.status, r.body, r.err)
	}
	return nil
}

// order requests a saga under a key until it gets a response.
func (a *asker) order(ctx context.Context, dice *rand.Rand) {
	w := &wish{job: sagaFlow, kind: ofSaga, key: "saga-" + uuidFrom(dice)}
	a.mu.Lock()
	a.wishes = append(a.wishes, w)
	a.mu.Unlock()
	for {
		r, lost := a.settle(
			ctx,
			dice,
			http.MethodPost,
			"/api/v1/sagas",
			w.key,
			encode(map[string]any{"workflow_name": sagaFlow, "payload": map[string]any{"key": w.key}}),
		)
		if r.code() != "REQ_IDEMPOTENCY_KEY_IN_USE" {
			a.heard(w, r, lost)
			return
		}
	}
}

func (r *jobRecord) readSagas(ctx context.Context, db *sql.DB) error {
	return each(ctx, db, `
		SELECT s.id, s.state, coalesce((SELECT json_object_agg(d.definition_name, d.n) FROM (
			SELECT definition_name, count(*) AS n FROM jobs.job_runs r WHERE r.saga_id = s.id AND r.state = 'SUCCEEDED' GROUP BY 1) AS d), '{}')
		  FROM saga.saga_states s`, func(rows *sql.Rows) error {
		var s sagaRow
		var state saga.State
		var done []byte
		err := rows.Scan(&s.id, &state, &done)
		if err == nil {
			err = json.Unmarshal(done, &s.done)
		}
		s.state = state.String()
		r.sagas = append(r.sagas, s)
		return err
	})
}

// ruleSagas: every saga whose steps are jobs has ended, in a state that is consistent with the
// jobs' runs.
func ruleSagas(r *jobRecord, v *jobsVerdict) {
	states := map[string]string{}
	for _, s := range r.sagas {
		states[s.id] = s.state
		book, bill, unbook := s.done[jobBook], s.done[jobBill], s.done[jobUnbook]
		switch s.state {
		case saga.Completed.String():
			if book != 1 || bill != 1 || unbook != 0 {
				v.add("J0", s.id, "the saga is %s, and %v succeeded", s.state, s.done)
			}
		case saga.Compensated.String():
			if book > 1 || unbook > 1 || unbook < book || bill != 0 {
				v.add("J0", s.id, "the saga is %s, and %v succeeded", s.state, s.done)
			}
		default:
			v.add("J0", s.id, "the saga is %s, and %v succeeded", s.state, s.done)
		}
	}
	for _, w := range r.asked {
		for _, id := range w.ids {
			if w.kind == ofSaga && states[id] == "" {
				v.add("J0", id, "the saga was accepted and is not there")
			}
		}
	}
}
