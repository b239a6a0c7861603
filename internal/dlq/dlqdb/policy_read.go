package dlqdb

import (
	"encoding/json"
	"fmt"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// policyColumns are the columns of dlq_policies, alias p, in the order of
// scanPolicy.
const policyColumns = `p.tenant_id, p.topic, p.version, p.max_retries, p.backoff, p.auto_retry, p.hold_all, p.ordered, p.retention_days, p.archive_days,
	p.max_generations, p.alert, p.redact, p.allowed_targets, p.updated_by, p.updated_at`

func scanPolicy(row postgres.Scanner, more ...any) (p dlq.Policy, err error) {
	var backoff, alert []byte
	err = row.Scan(append([]any{&p.TenantID, &p.Topic, &p.Version, &p.MaxRetries, &backoff, &p.AutoRetry, &p.HoldAll,
		&p.Ordered, &p.RetentionDays, &p.ArchiveDays,
		&p.MaxGenerations, &alert, pq.Array(&p.Redact), pq.Array(&p.AllowedTargets), &p.UpdatedBy, &p.UpdatedAt}, more...)...)
	if err != nil {
		return p, err
	}
	postgres.UTC(&p.UpdatedAt)
	if err := json.Unmarshal(backoff, &p.Backoff); err != nil {
		return p, fmt.Errorf("stored backoff: %w", err)
	}
	if err := json.Unmarshal(alert, &p.Alert); err != nil {
		return p, fmt.Errorf("stored alert: %w", err)
	}
	return p, nil
}

// policyServing finds the policy that serves topic $2: its own, else the
// tenant's, and whether the tenant's holds all. No row: the configuration's does.
var policyServing = postgres.OfTenant(`
SELECT `+policyColumns+`, coalesce((SELECT c.hold_all FROM dlq.dlq_policies c WHERE c.tenant_id = tenant.id AND c.topic = ''), false)
  FROM dlq.dlq_policies p WHERE p.tenant_id = tenant.id AND p.topic IN ($2, '') ORDER BY p.topic DESC LIMIT 1`, "")
