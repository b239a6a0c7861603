package auditdb

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// The events of sagas contain the actions of operators on them (docs/decisions/0102). The list
// shows such an event as an action whose id is the event's number.

// operatedColumns are the columns of actionTable, read from an event e. The verb, the reason and
// the detail are in the event's data, and the operation is the name of its step; saga.OperationOf
// reads them.
var operatedColumns = strings.Join([]string{
	"lpad(to_hex(e.id), 32, '0')::uuid AS id",
	"e.tenant_id",
	"CASE WHEN isfinite(e.timestamp) THEN e.timestamp ELSE 'epoch' END AS at",
	"'saga' AS kind", // operator.Saga
	"e.saga_id::text AS subject",
	"e.event_type AS verb",
	"e.actor",
	"'' AS reason",
	"coalesce(e.request_id, '') AS request_id",
	"e.event_data AS detail",
	"NULL::uuid AS credential_id",
	"'' AS address",
	"coalesce(e.step_name, '') AS operation",
	"NULL::bytea AS before_hash",
	"NULL::bytea AS after_hash",
	"'" + operator.Done + "' AS result",
}, ", ")

// These are the conditions of the index of operators' events, word for word.
var operatorsEvent = "e.event_type IN ('" + joined(saga.OperatorTypes, "', '") + "')"

const notOfBulk = "NOT jsonb_exists(e.event_data, 'bulk')"

func joined(types []eventtype.Type, separator string) string {
	var texts []string
	for _, t := range types {
		texts = append(texts, string(t))
	}
	return strings.Join(texts, separator)
}

// operated selects the events e that record operators' actions on sagas. some is false if no event
// can match. args are the parameters of the statement so far.
func operated(tenant uuid.UUID, f *operator.Filter, args []any) (w postgres.Where, some bool) {
	w.Args = args
	if !f.Sagas || tenant == operator.Deployment || f.Operation != "" || f.Kind != "" && f.Kind != operator.Saga {
		return w, false
	}
	w.Add("e.tenant_id = ?", tenant)
	w.Add(operatorsEvent)
	if f.Subject == "" {
		w.Add(notOfBulk)
	} else {
		id, err := uuid.Parse(f.Subject)
		if err != nil {
			return w, false
		}
		w.Add("e.saga_id = ?", id)
		w.Add("e.event_data IS NOT NULL")
	}
	if f.Verb != "" {
		t, told, ok := saga.RecordOf(saga.Verb(f.Verb))
		if !ok {
			return w, false
		}
		w.Add("e.event_type = ?", string(t))
		if told != nil {
			w.Add("e.event_data->>'verb' = ANY (?)", pq.Array(told))
		}
	}
	if f.Actor != "" {
		w.Add("e.actor = ?", f.Actor)
	}
	if f.RequestID != "" {
		w.Add("e.request_id = ?", f.RequestID)
	}
	between(&w, "e.timestamp", f)
	if f.After != nil {
		w.Add("(e.timestamp, e.id) < (?, ?)", f.After.At, eventOf(f.After.ID))
	}
	return w, true
}

// eventOf returns the number of the event that an action's id represents. For a recorded action it
// returns the highest number, because ids of recorded actions sort after those of events, so that
// all events with the same time follow the action in the list.
func eventOf(id uuid.UUID) int64 {
	if high := binary.BigEndian.Uint64(id[:8]); high != 0 {
		return math.MaxInt64
	}
	return int64(min(binary.BigEndian.Uint64(id[8:]), math.MaxInt64)) //nolint:gosec // bounded
}

func between(w *postgres.Where, at string, f *operator.Filter) {
	if !f.From.IsZero() {
		w.Add(at+" >= ?", f.From)
	}
	if !f.To.IsZero() {
		w.Add(at+" < ?", f.To)
	}
}
