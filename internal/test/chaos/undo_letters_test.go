package chaos

import (
	"context"
	"fmt"
)

// checkUndoLetters checks the dead letters of sagas: a saga that ended dirty has exactly one open
// letter, which it names, and no other saga has any.
func (w *world) checkUndoLetters(ctx context.Context, v *verdict) error {
	rows, err := w.db.sql().QueryContext(ctx, `
		SELECT coalesce(s.id, m.saga_id), coalesce(s.state, -1) = 6, count(m.id),
		       count(m.id) FILTER (WHERE m.status = 'PENDING' AND m.id::text = s.interventions ->> 'dead_letter' AND m.step_index = s.current_step
		                                 AND m.tenant_id = s.tenant_id)
		  FROM saga.saga_states s
		  FULL JOIN dlq.dlq_messages m ON m.saga_id = s.id AND m.source = 'SAGA' AND m.status <> 'RESOLVED'
		 WHERE s.state = 6 OR m.source = 'SAGA' AND m.status <> 'RESOLVED'
		 GROUP BY 1, 2`)
	if err != nil {
		return fmt.Errorf("read dead letters of sagas: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var dirty bool
		var open, named int
		if err := rows.Scan(&id, &dirty, &open, &named); err != nil {
			return fmt.Errorf("read dead letters of sagas: %w", err)
		}
		if v.sagas[id] == nil || !dirty || open != 1 || named != 1 {
			w.add("I2", id, "", "ended dirty: %v; it has %d open dead letters, and names %d of them", dirty, open, named)
		}
		v.letters++
	}
	return rows.Err()
}
