package dlqdb

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// maxAlertCount limits how far open letters are counted for an alert with a higher limit.
const maxAlertCount = 100_000

// topicNow reads the figures that alerts need for topic $2 of tenant $1: the number of open
// letters, counted up to $3; the arrival time of the oldest one; the arrivals of the last five
// minutes; and whether there is an unacknowledged error.
var topicNow = `
SELECT (SELECT count(*)
          FROM (SELECT FROM dlq.dlq_messages m
                 WHERE m.tenant_id = $1 AND m.original_topic = t.topic AND ` + openLetter + `
                 LIMIT $3) AS few),
       (SELECT min(o.created_at) FROM (` + oldestOpen + `) AS o),
       (SELECT coalesce(sum(a.received), 0) FROM dlq.dlq_arrivals a
         WHERE a.tenant_id = $1 AND a.topic = t.topic AND a.minute > statement_timestamp() - interval '5 minutes'),
       EXISTS (SELECT FROM dlq.dlq_groups g WHERE g.tenant_id = $1 AND g.topic = t.topic AND g.state = 'NEW'),
       statement_timestamp()
  FROM (SELECT $2::text AS topic) AS t`

// Alerting returns those topics, among the first ones by name, that exceed the alert of their
// policy. Open letters are counted up to atLeast, or further if the alert requires it.
func (st *Letters) Alerting(ctx context.Context, tenant uuid.UUID, topics int, atLeast int64) (out []dlq.Alerting,
	err error) {
	err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		own, err := st.ownPolicies(ctx, tx, tenant)
		if err != nil {
			return err
		}
		if !anyAlert(own, st.common) {
			return nil
		}
		var names []string
		if err := tx.SelectContext(ctx, &names, letterTopics, tenant, "", topics, "", true); err != nil {
			return err
		}
		for _, name := range names {
			alert := alertOf(name, own, st.common)
			if alert == (dlq.Alert{}) {
				continue
			}
			a, err := alerting(ctx, tx, tenant, name, alert, atLeast)
			if err != nil {
				return fmt.Errorf("topic %q: %w", name, err)
			}
			if len(a.Alerts) > 0 {
				out = append(out, a)
			}
		}
		return nil
	})
	return out, postgres.Wrap("find the alerts of topics", err)
}

// ownPolicies returns the tenant's policies by topic; the key "" holds the default policy.
func (st *Letters) ownPolicies(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID) (map[string]dlq.Alert, error) {
	own := map[string]dlq.Alert{}
	rows, err := tx.QueryContext(ctx, `SELECT `+policyColumns+` FROM dlq.dlq_policies p WHERE p.tenant_id = $1`, tenant)
	if err != nil {
		return nil, err
	}
	return own, postgres.EachRow(rows, func() error {
		p, err := scanPolicy(rows)
		own[p.Topic] = p.Alert
		return err
	})
}

func anyAlert(own map[string]dlq.Alert, common dlq.Policy) bool {
	for _, a := range own {
		if a != (dlq.Alert{}) {
			return true
		}
	}
	return common.Alert != (dlq.Alert{})
}

// alertOf returns the alert that applies to a topic: its own, the tenant's default, or the one in
// the configuration.
func alertOf(topic string, own map[string]dlq.Alert, common dlq.Policy) dlq.Alert {
	for _, of := range []string{topic, ""} {
		if a, has := own[of]; has {
			return a
		}
	}
	return common.Alert
}

func alerting(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, topic string, alert dlq.Alert,
	atLeast int64) (dlq.Alerting, error) {
	var open, arrived int64
	var oldest sql.NullTime
	var unknown bool
	var now time.Time
	row := tx.QueryRowContext(ctx, topicNow, tenant, topic, max(min(alert.Count, maxAlertCount), atLeast)+1)
	if err := row.Scan(&open, &oldest, &arrived, &unknown, &now); err != nil {
		return dlq.Alerting{}, err
	}
	stats := dlq.TopicStats{Last5m: arrived}
	if oldest.Valid {
		stats.Oldest = new(oldest.Time.UTC())
	}
	return dlq.Alerting{Topic: topic, Alerts: alert.Exceeded(open, &stats, unknown, now), Open: open,
		Oldest: stats.Oldest}, nil
}
