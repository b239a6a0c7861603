package dlqdb

import (
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/retry"
)

// policyTable describes dlq.dlq_policies.
var policyTable = postgres.NewTable(
	postgres.UUID("tenant_id", func(p *dlq.Policy) *uuid.UUID { return &p.TenantID }),
	postgres.Text("topic", func(p *dlq.Policy) *string { return &p.Topic }),
	postgres.Int("version", func(p *dlq.Policy) *int64 { return &p.Version }),
	postgres.Int("max_retries", func(p *dlq.Policy) *int { return &p.MaxRetries }),
	postgres.OrMark("backoff", func(p *dlq.Policy) *retry.Policy { return &p.Backoff }, unreadable),
	postgres.Bool("auto_retry", func(p *dlq.Policy) *bool { return &p.AutoRetry }),
	postgres.Bool("hold_all", func(p *dlq.Policy) *bool { return &p.HoldAll }),
	postgres.Bool("retry_permanent", func(p *dlq.Policy) *bool { return &p.RetryPermanent }),
	postgres.Bool("ordered", func(p *dlq.Policy) *bool { return &p.Ordered }),
	postgres.Int("retention_days", func(p *dlq.Policy) *int { return &p.RetentionDays }),
	postgres.Int("archive_days", func(p *dlq.Policy) *int { return &p.ArchiveDays }),
	postgres.Int("max_generations", func(p *dlq.Policy) *int { return &p.MaxGenerations }),
	postgres.OrMark("alert", func(p *dlq.Policy) *dlq.Alert { return &p.Alert }, unreadable),
	postgres.Texts("redact", func(p *dlq.Policy) *[]string { return &p.Redact }),
	postgres.Texts("allowed_targets", func(p *dlq.Policy) *[]string { return &p.AllowedTargets }),
	postgres.Texts("keep_headers", func(p *dlq.Policy) *[]string { return &p.KeepHeaders }),
	postgres.Text("updated_by", func(p *dlq.Policy) *string { return &p.UpdatedBy }),
	postgres.Time("updated_at", func(p *dlq.Policy) *time.Time { return &p.UpdatedAt }),
)

func unreadable(p *dlq.Policy) *bool { return &p.Unreadable }

// scanPolicy reads a policy. A damaged backoff is replaced by the default.
func scanPolicy(row postgres.Scanner, more ...any) (dlq.Policy, error) {
	p, err := policyTable.One(row, more...)
	if p.Unreadable && p.Backoff.InitialIntervalMS == 0 {
		p.Backoff = dlq.DefaultPolicy.Backoff
	}
	return p, err
}

var policyColumns = policyTable.Selected("p")

// policyServing finds the policy that applies to topic $2: its own or else the tenant's default. It
// also returns whether the default holds all topics. If there is no row, the policy in the
// configuration applies.
var policyServing = postgres.OfTenant(`
SELECT `+policyColumns+`,
       coalesce((SELECT c.hold_all FROM dlq.dlq_policies c WHERE c.tenant_id = tenant.id AND c.topic = ''), false)
  FROM dlq.dlq_policies p WHERE p.tenant_id = tenant.id AND p.topic IN ($2, '') ORDER BY p.topic DESC LIMIT 1`, "")
