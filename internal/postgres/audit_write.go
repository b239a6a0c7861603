package postgres

import (
	"fmt"
	"strings"

	"github.com/skald-saga/skald/internal/saga"
)

// eventTypes are the types of the columns of a batch of audit events, in the
// order of eventColumns.add.
var eventTypes = [...]string{
	"uuid", "uuid", "text", "bigint", "text", "bigint", "timestamptz", "text",
	"bigint", "bigint", "text", "text", "text", "text", "text", "bytea",
}

// insertEvents is the statement, without its condition on e, that appends a
// batch of audit events whose columns are the parameters from $first on. Ids
// are given in the order of the batch.
func insertEvents(first int) string {
	list := make([]string, len(eventTypes))
	for i, t := range eventTypes {
		list[i] = fmt.Sprintf("$%d::%s[]", first+i, t)
	}
	return `
	INSERT INTO saga.audit_events (saga_id, tenant_id, event_type, step_index, step_name, attempt, timestamp, event_data,
	       old_state, new_state, error, actor, request_id, trace_id, span_id, digest)
	SELECT saga_id, tenant_id, event_type, step_index, step_name, attempt, at, data::jsonb,
	       old_state, new_state, error::jsonb, actor, request_id, trace_id, span_id, digest
	  FROM unnest(` + strings.Join(list, ", ") + `) AS e (
	       saga_id, tenant_id, event_type, step_index, step_name, attempt, at, data,
	       old_state, new_state, error, actor, request_id, trace_id, span_id, digest)`
}

// eventColumns gathers a batch of audit events.
type eventColumns struct {
	columns [len(eventTypes)]column
}

func (c *eventColumns) add(e *saga.AuditEvent) error {
	digest := e.Digest()
	c.columns[0].uuid(e.SagaID)
	c.columns[1].uuid(e.TenantID)
	c.columns[2].text(string(e.Type))
	c.columns[3].intUnless(int64(e.StepIndex), saga.NoStep)
	c.columns[4].textUnlessEmpty(e.StepName)
	c.columns[5].intUnless(int64(e.Attempt), 0)
	c.columns[6].time(e.At)
	c.columns[7].json(e.Data)
	c.columns[8].intUnless(int64(e.Old), int64(saga.NoState))
	c.columns[9].intUnless(int64(e.New), int64(saga.NoState))
	err := errorOrNull(&c.columns[10], e.Error)
	c.columns[11].text(e.Actor)
	c.columns[12].textUnlessEmpty(e.RequestID)
	c.columns[13].textOrNull(e.TraceID)
	c.columns[14].textOrNull(e.SpanID)
	c.columns[15].bytes(digest[:])
	return err
}
