package auditdb_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// An object stores the actor and the time of each action on it. The actor's name at that time is in
// the audit record of the action.
func TestTheNameOfAnActorIsThatOfTheTime(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	fill := pgtest.Observer(t, dsn)
	tenant, of := "00000000-0000-4000-8000-000000000003", uuid.MustParse("00000000-0000-4000-8000-00000000000a")
	old := uuid.MustParse("00000000-0000-4000-8000-00000000000b")
	for _, s := range []string{
		`SET session_replication_role = replica`,
		`INSERT INTO saga.audit_actions (id, tenant_id, at, kind, subject, verb, actor, detail, digest)
		 SELECT gen_random_uuid(), tenant::uuid, '2026-03-01'::timestamptz + minutes * interval '1 min', kind, subject, 'x', actor, detail::jsonb, ''
		   FROM (VALUES ('` + tenant + `', 0, 'webhook', 'w', 'jwt:1', '{"actor_name": "Kim"}'),
		               ('` + tenant + `', 30, 'webhook', 'w', 'jwt:1', '{"actor_name": "Kim Lee"}'),
		               ('` + tenant + `', 40, 'webhook', 'w', 'jwt:1', '{"version": 2}'),
		               ('` + tenant + `', 0, 'webhook', 'w', 'jwt:2', NULL),
		               ('` + tenant + `', 0, 'webhook', 'v', 'jwt:3', '{"actor_name": "of another"}'),
		               ('` + operator.Deployment.String() + `', 60, 'job_settings', 'a,b', 'jwt:1', '{"actor_name": "Kim"}'),
		               ('00000000-0000-4000-8000-000000000004', 0, 'webhook', 'w', 'jwt:4', '{"actor_name": "elsewhere"}')
		        ) AS a (tenant, minutes, kind, subject, actor, detail)`,
		`INSERT INTO saga.audit_events (saga_id, tenant_id, event_type, actor, event_data, digest) VALUES
		 ('` + of.String() + `', '` + tenant + `', 'saga.started', 'jwt:1', '{"actor_name": "Kim"}', ''),
		 ('` + of.String() + `', '` + tenant + `', 'saga.suspended', 'jwt:2', '{"actor_name": "not who started it"}', '')`,
		`INSERT INTO saga.audit_events_archive (saga_id, id, txid, timestamp, tenant_id, event_type, actor, event_data, digest) VALUES
		 ('` + old.String() + `', 1, '1', now(), '` + tenant + `', 'saga.started', 'jwt:1', '{"actor_name": "Kim"}', '')`,
	} {
		if _, err := fill.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	at := func(minutes int) time.Time {
		return time.Date(2026, 3, 1, 0, minutes, 0, 0, time.UTC)
	}
	log := auditdb.NewActions(pgtest.Connect(t, dsn))
	for _, tt := range []struct {
		name, want, tenant string
		deed               operator.Deed
	}{
		{"at its time", "Kim", tenant, operator.Deed{Actor: "jwt:1", At: at(0), About: []string{"w"}}},
		{"with the clock of another machine", "Kim", tenant, operator.Deed{Actor: "jwt:1", At: at(-1), About: []string{"w"}}},
		{"after a new name", "Kim Lee", tenant, operator.Deed{Actor: "jwt:1", At: at(31), About: []string{"w"}}},
		{"where the last request had no name", "Kim Lee", tenant, operator.Deed{Actor: "jwt:1", At: at(40), About: []string{"w"}}},
		{"of several subjects", "Kim", tenant, operator.Deed{Actor: "jwt:1", At: at(0), About: []string{"?", "w"}}},
		{"without a name", "", tenant, operator.Deed{Actor: "jwt:2", At: at(0), About: []string{"w"}}},
		{"of another subject", "", tenant, operator.Deed{Actor: "jwt:3", At: at(0), About: []string{"w"}}},
		{"of another tenant", "", tenant, operator.Deed{Actor: "jwt:4", At: at(0), About: []string{"w"}}},
		{"of a change of settings", "Kim", operator.Deployment.String(), operator.Deed{Actor: "jwt:1", At: at(60)}},
		{"of a change at another time", "", operator.Deployment.String(), operator.Deed{Actor: "jwt:1", At: at(62), About: []string{"a"}}},
		{"who started a saga", "Kim", tenant, operator.Deed{Actor: "jwt:1", Saga: of}},
		{"who did not start it", "", tenant, operator.Deed{Actor: "jwt:2", Saga: of}},
		{"who started one whose events are archived", "Kim", tenant, operator.Deed{Actor: "jwt:1", Saga: old}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := log.Names(t.Context(), uuid.MustParse(tt.tenant), []operator.Deed{{Actor: "jwt:1", At: at(0)}, tt.deed})
			if err != nil {
				t.Fatal(err)
			}
			none := "" // the previous deed concerns no subject
			if diff := cmp.Diff([]string{none, tt.want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
