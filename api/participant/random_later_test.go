package participant

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"pgregory.net/rapid"
)

// promise is what the model knows about a deferred call.
type promise struct {
	callback string
	attempt  int
	over     bool // it was compensated
}

func newModel() *model {
	return &model{
		execute: map[int]string{}, undo: map[int]string{},
		waits: map[Action]map[int]promise{Execute: {}, Compensate: {}},
	}
}

// late reports whether an execute may no longer be done.
func (m *model) late(run int) bool { return run <= m.blocked || run < m.newest }

// begun reports whether the newest execute was answered with Later and neither finished nor
// compensated.
func (m *model) begun() bool {
	p, waits := m.waits[Execute][m.newest]
	return waits && !p.over
}

// undone records that a compensation was done.
func (m *model) undone(run int, answer string) {
	if m.held {
		m.effects--
	}
	m.undo[run], m.held = answer, false
	for run, p := range m.waits[Execute] {
		p.over = true
		m.waits[Execute][run] = p
	}
}

// repeated records the callback of a call that was answered with a promise.
func (m *model) repeated(c *Call) {
	if p, waits := m.waits[c.Action][c.run]; waits && c.Attempt >= p.attempt {
		p.callback, p.attempt = c.Callback, c.Attempt
		m.waits[c.Action][c.run] = p
	}
}

// playEnd finishes the work of a call, whether or not it is pending.
func playEnd(t *rapid.T, at place, h *Handler, m *model, saga string) {
	action := rapid.SampledFrom([]Action{Execute, Execute, Compensate}).Draw(t, "action of the end")
	run := rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "run of the end")
	how := rapid.SampledFrom([]string{"", "", "refuse", "fail", "crash"}).Draw(t, "how it ends")
	if how == "crash" && at.db == nil {
		how = "" // without a transaction, nothing needs to be rolled back
	}
	p, waits := m.waits[action][run]
	var want error
	switch {
	case !waits:
		want = ErrNotPending
	case action == Execute && m.late(run):
		want = ErrCompensated
	case how == "crash":
		want = errCrashed
	}
	by := 1
	if action == Compensate {
		if by = 0; m.held {
			by = -1
		}
	}
	key := fmt.Sprintf("%s/x/%s#%d", saga, action, run)
	report, err := endIn(t.Context(), at, h, &Call{Saga: saga, Key: key}, how, by)
	if !errors.Is(err, want) {
		t.Fatalf("the end of %s %s: %v; want %v", key, how, err, want)
	}
	if err == nil && report.url != p.callback {
		t.Fatalf("the end of %s is reported to %s; want %s", key, report.url, p.callback)
	}
	if err == nil {
		m.ended(action, run, how)
	}
	if effects := at.effects(saga); effects != m.effects {
		t.Fatalf("the end of %s %s: %d effects; want %d", key, how, effects, m.effects)
	}
}

// ended records that the work of a call has ended.
func (m *model) ended(action Action, run int, how string) {
	delete(m.waits[action], run)
	switch {
	case how == "refuse" && action == Execute:
		m.execute[run] = `409{"code":"NO"}`
	case how != "":
	case action == Execute:
		m.execute[run], m.held = `200"ended"`, true
		m.effects++
	default:
		m.undone(run, `200"ended"`)
	}
}

var errCrashed = errors.New("crashed before the commit")

// endIn acts as a worker.
func endIn(ctx context.Context, at place, h *Handler, c *Call, how string, by int) (report *Report, err error) {
	var tx *sql.Tx
	if at.db != nil {
		if tx, err = at.db.BeginTx(ctx, nil); err != nil {
			return nil, err
		}
		defer func() { _ = tx.Rollback() }()
	}
	var failure error
	switch how {
	case "refuse":
		failure = Refuse("NO", "")
	case "fail":
		failure = errors.New("failed")
	default:
		if err := at.effect(ctx, tx, c, by); err != nil {
			return nil, err
		}
	}
	if report, err = h.Finish(ctx, tx, c.Key, "ended", failure); err != nil {
		return nil, err
	}
	if how == "crash" {
		return nil, errCrashed
	}
	for _, f := range c.committed { // without a database
		f()
	}
	if tx != nil {
		return report, tx.Commit()
	}
	return report, nil
}
