package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/saga"
)

// checkTrail replays the audit trail (I10): each saga's events follow only legal edges, from one
// state to the next without a gap, and end in the state of its row. The hash chain proves that the
// events are unchanged.
func (w *world) checkTrail(ctx context.Context, v *verdict) error {
	rows, err := w.db.sql().QueryContext(ctx, `
		SELECT saga_id, event_type, coalesce(old_state, -1), coalesce(new_state, -1) FROM saga.saga_events ORDER BY saga_id, id`)
	if err != nil {
		return fmt.Errorf("read audit events: %w", err)
	}
	defer rows.Close()
	at := map[string]saga.State{}
	for rows.Next() {
		var id, event string
		var from, to saga.State
		if err := rows.Scan(&id, &event, &from, &to); err != nil {
			return fmt.Errorf("read audit events: %w", err)
		}
		last, known := at[id]
		switch {
		case id == uuid.Nil.String(): // events of participants
			continue
		case v.sagas[id] == nil:
			w.add("I10", id, "", "has an event %s, and does not exist", event)
		case !known && (event != string(eventtype.SagaStarted) || from != saga.NoState || to != saga.Pending):
			w.add("I10", id, "", "its trail begins with %s, %d to %d", event, from, to)
		case to == saga.NoState:
			continue
		case known &&
			(from != last || !slices.ContainsFunc(saga.Edges, func(e saga.Edge) bool { return e.From == from && e.To == to })):
			w.add("I10", id, "", "%s tells of %d to %d, after %d", event, from, to, last)
		}
		at[id] = to
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read audit events: %w", err)
	}
	for id, r := range v.sagas {
		if last, known := at[id]; !known || last != r.state {
			w.add("I10", id, "", "is %s, and its trail ends in %d", r.state, last)
		}
	}
	return w.verifyTrail(ctx)
}

// verifyTrail makes a node verify the whole chain.
func (w *world) verifyTrail(ctx context.Context) error {
	for next := int64(1); next > 0; {
		r, err := w.ask(ctx, fmt.Sprintf("/api/v1/audit/verify?from_seq=%d", next))
		if err != nil {
			return err
		}
		var found struct {
			OK   bool
			Bad  json.RawMessage `json:"first_bad"`
			Next int64           `json:"next_seq"`
		}
		if err := json.Unmarshal(r.body, &found); err != nil || r.status != http.StatusOK {
			return fmt.Errorf("verify the trail: %d %s", r.status, r.body)
		}
		if !found.OK {
			w.add("I10", "", "", "the chain says that it was tampered with: %s", found.Bad)
		}
		next = found.Next
	}
	return nil
}
