package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-saga/skald/examples/order/ledger"
	"github.com/skald-saga/skald/internal/saga"
)

// record contains everything that is known about one saga at the end of a run.
type record struct {
	id        string
	flow      *flow
	marker    string
	payload   []byte
	state     saga.State
	version   int64
	epoch     int64
	step      int
	clean     *bool
	attention bool
	cause     string
	created   time.Time
	timeoutAt *time.Time
	timedOut  *time.Time
	completed *time.Time

	logs  []stepLog
	calls []ledger.Entry // in order of receipt
	order *order         // nil if no client knows the saga
}

// stepLog is a row of saga_step_logs.
type stepLog struct {
	step     int
	action   string
	attempt  int
	status   string
	final    bool
	outcome  string
	started  time.Time
	finished *time.Time
}

// records reads every saga in the database. It uses SQL directly, because the product's own reader
// could have the same defect as its writer.
func (w *world) records(ctx context.Context) (map[string]*record, error) {
	flows := map[string]*flow{}
	for i := range w.flows {
		flows[w.flows[i].name] = &w.flows[i]
	}
	rows, err := w.db.sql().QueryContext(ctx, `
		SELECT id, workflow_name, coalesce(payload->>'marker', ''), payload, state, version, lease_epoch, current_step,
		       clean, needs_attention, coalesce(end_cause, ''), created_at, timeout_at, timed_out_at, completed_at
		  FROM saga.saga_states`)
	if err != nil {
		return nil, fmt.Errorf("read sagas: %w", err)
	}
	defer rows.Close()
	out := map[string]*record{}
	for rows.Next() {
		r := &record{}
		var flow string
		if err := rows.Scan(&r.id, &flow, &r.marker, &r.payload, &r.state, &r.version, &r.epoch, &r.step,
			&r.clean, &r.attention, &r.cause, &r.created, &r.timeoutAt, &r.timedOut, &r.completed); err != nil {
			return nil, fmt.Errorf("read sagas: %w", err)
		}
		if r.flow = flows[flow]; r.flow == nil {
			return nil, fmt.Errorf("saga %s has the unknown workflow %q", r.id, flow)
		}
		out[r.id] = r
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read sagas: %w", err)
	}
	return out, w.addLogs(ctx, out)
}

func (w *world) addLogs(ctx context.Context, sagas map[string]*record) error {
	rows, err := w.db.sql().QueryContext(ctx, `
		SELECT saga_id, step_index, action, attempt, status, final, coalesce(outcome_code, ''), started_at, completed_at
		  FROM saga.saga_step_logs ORDER BY saga_id, started_at, id`)
	if err != nil {
		return fmt.Errorf("read step logs: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var l stepLog
		if err := rows.Scan(&id, &l.step, &l.action, &l.attempt, &l.status, &l.final, &l.outcome, &l.started,
			&l.finished); err != nil {
			return fmt.Errorf("read step logs: %w", err)
		}
		r := sagas[id]
		if r == nil {
			return fmt.Errorf("a step log belongs to saga %s, which does not exist", id)
		}
		r.logs = append(r.logs, l)
	}
	return rows.Err()
}

// fingerprints returns hashes of whole rows that must never change again, for later comparison.
func (w *world) fingerprints(ctx context.Context) (map[string]string, error) {
	rows, err := w.db.sql().QueryContext(ctx, `
		SELECT s.id, md5(s::text || coalesce((SELECT string_agg(l::text, '|' ORDER BY l.id) FROM saga.saga_step_logs l WHERE l.saga_id = s.id), ''))
		  FROM saga.saga_states s WHERE s.completed_at IS NOT NULL`)
	if err != nil {
		return nil, fmt.Errorf("read fingerprints: %w", err)
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var id, print string
		if err := rows.Scan(&id, &print); err != nil {
			return nil, fmt.Errorf("read fingerprints: %w", err)
		}
		out[id] = print
	}
	return out, rows.Err()
}

// end returns the final state in the form that the ledger's checker expects.
func (r *record) end() ledger.SagaEnd {
	end := ledger.SagaEnd{Outcome: ledger.Compensated, Steps: r.flow.steps, WithoutUndo: r.flow.withoutUndo,
		Ahead: r.flow.ahead}
	switch r.state {
	case saga.Completed:
		end.Outcome = ledger.Completed
	case saga.Failed:
		end.Outcome = ledger.Dirty
	}
	return end
}

// effect returns what the participants have stored for a step.
func (r *record) effect(step string) (applied, undone bool) {
	for _, c := range r.calls {
		if c.Step == step && c.Effect == ledger.Applied {
			applied = applied || c.Action == ledger.Execute
			undone = undone || c.Action == ledger.Compensate
		}
	}
	return applied, undone
}
