package audit_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/access/accessdb"
	"github.com/skald-saga/skald/internal/audit"
	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/tenant"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// record is an audit trail of actions that the tests alter.
type record struct {
	*auditdb.Actions
	keys  *accessdb.Keys
	super *sql.DB // superuser connection with triggers disabled
}

func newRecord(t *testing.T) record {
	t.Helper()
	dsn := testdb.DSN(t)
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	super, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { super.Close() })
	return record{auditdb.NewActions(db), accessdb.NewKeys(db), super}
}

// write creates keys of a tenant: two in each of three seals and one that is not sealed, with texts
// that are awkward to encode.
func (r record) write(t *testing.T, tenantID uuid.UUID) {
	t.Helper()
	ctx := operator.As(t.Context(), operator.By{
		Actor:      "jwt:ann \"ж\", 5:x",
		Reason:     "why,\nnot: -",
		RequestID:  "r-1",
		Credential: uuid.New(),
		Address:    "::1",
		Operation:  "createAPIKey",
	})
	for i := range 7 {
		at := time.Now().UTC().Truncate(time.Microsecond)
		k := access.Key{
			ID:     uuid.Must(uuid.NewV7()),
			Name:   fmt.Sprintf("key \u2028 <%d>", i),
			Prefix: fmt.Sprintf("%s%d", tenantID.String()[:7], i),
			Hash:   make([]byte, 32),
			Role:   principal.Auditor,
			Tenant: &tenant.Tenant{ID: tenantID}, CreatedBy: "ann", CreatedAt: at,
		}
		if err := r.keys.Create(ctx, k); err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 {
			r.settle(t)
			if n, err := r.Seal(t.Context(), tenantID); err != nil || n != 2 {
				t.Fatalf("sealed %d actions, %v", n, err)
			}
		}
	}
}

// settle waits until no earlier transaction can still commit.
func (r record) settle(t *testing.T) {
	t.Helper()
	var now, xmin int64
	if err := r.super.QueryRowContext(t.Context(), `SELECT pg_current_xact_id()::text`).Scan(&now); err != nil {
		t.Fatal(err)
	}
	for xmin <= now {
		if err := r.super.QueryRowContext(t.Context(), `SELECT pg_snapshot_xmin(pg_current_snapshot())::text`).Scan(&xmin); err != nil {
			t.Fatal(err)
		}
	}
}

func (r record) verify(t *testing.T, tenantID uuid.UUID) trail.Verification {
	t.Helper()
	v, err := audit.Verify(t.Context(), r, tenantID, 1, 100)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A change of any column of any action is detected, and the action is named. The test fails if the
// digest omits a column.
func TestAnyChangeOfAnActionIsDetected(t *testing.T) {
	r := newRecord(t)
	tenantID := uuid.New()
	r.write(t, tenantID)
	if v := r.verify(t, tenantID); v.FirstBad != nil || v.CheckedSeals != 3 || v.CheckedEvents != 7 || v.Unsealed != 1 {
		t.Fatalf("untouched: %+v, %+v", v, v.FirstBad)
	}
	var columns []string
	rows, err := r.super.QueryContext(t.Context(), `SELECT column_name FROM information_schema.columns
		WHERE table_schema = 'saga' AND table_name = 'audit_actions' AND column_name NOT IN ('n', 'txid', 'digest') ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var c string
		if err := rows.Scan(&c); err != nil {
			t.Fatal(err)
		}
		columns = append(columns, c)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	other := map[string]string{
		"id":            "gen_random_uuid()",
		"tenant_id":     "",
		"at":            "at + interval '1 us'",
		"detail":        `'{"name": "other"}'`,
		"credential_id": "NULL",
		"before_hash":   "'\\x00'", "after_hash": "NULL",
	}
	for i, column := range columns {
		value, special := other[column]
		switch {
		case special && value == "":
			continue // it would belong to another tenant: see the next test
		case !special:
			value = "'x' || " + column
		}
		t.Run(column, func(t *testing.T) {
			var place int64
			var id uuid.UUID
			pick := fmt.Sprintf(`SELECT n, id FROM saga.audit_actions WHERE tenant_id = $1 ORDER BY n OFFSET %d LIMIT 1`, i%7)
			if err := r.super.QueryRowContext(t.Context(), pick, tenantID).Scan(&place, &id); err != nil {
				t.Fatal(err)
			}
			r.must(t, `CREATE TABLE IF NOT EXISTS saved AS SELECT a.* FROM saga.audit_actions a WHERE false`)
			r.must(t, `INSERT INTO saved SELECT a.* FROM saga.audit_actions a WHERE a.n = $1`, place)
			r.must(t, `UPDATE saga.audit_actions SET `+column+` = `+value+` WHERE n = $1`, place)
			v := r.verify(t, tenantID)
			if bad := v.FirstBad; bad == nil || bad.Kind != trail.DigestMismatch || bad.EventID != place ||
				column != "id" && bad.Subject != id.String() {
				t.Errorf("found %+v, want row %d named", bad, place)
			}
			r.must(
				t,
				`UPDATE saga.audit_actions a SET `+column+` = s.`+column+` FROM saved s WHERE a.n = s.n AND s.n = $1`,
				place,
			)
			if v := r.verify(t, tenantID); v.FirstBad != nil {
				t.Fatalf("put back as it was: %+v", v.FirstBad)
			}
		})
	}
}

func (r record) must(t *testing.T, query string, args ...any) {
	t.Helper()
	if _, err := r.super.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func TestRemovedInsertedAndForgedActionsAreDetected(t *testing.T) {
	for _, tt := range []struct {
		name, meddle string
		want         trail.Tampering
	}{
		{"taken away", `DELETE FROM saga.audit_actions WHERE n = (SELECT min(n) + 2 FROM saga.audit_actions WHERE tenant_id = $1)`, trail.MissingEvents},
		{"moved to another tenant", `UPDATE saga.audit_actions SET tenant_id = gen_random_uuid()
			WHERE n = (SELECT min(n) + 2 FROM saga.audit_actions WHERE tenant_id = $1)`, trail.MissingEvents},
		{"forged with its digest", `UPDATE saga.audit_actions a SET actor = 'eve', digest = saga.action_digest((a.id, a.tenant_id, a.at, a.kind, a.subject, a.verb, 'eve', a.reason,
			a.request_id, a.detail, a.credential_id, a.address, a.operation, a.before_hash, a.after_hash, a.result, a.n, a.txid, a.digest)::saga.audit_actions)
			WHERE n = (SELECT min(n) + 2 FROM saga.audit_actions WHERE tenant_id = $1)`, trail.SealMismatch},
		{"put in", "", trail.UnexpectedEvents},
		{"a seal taken away", `DELETE FROM saga.audit_action_seals WHERE tenant_id = $1 AND seq = 2`, trail.MissingSeals},
		{"a seal changed", `UPDATE saga.audit_action_seals SET hash = sha256(hash) WHERE tenant_id = $1 AND seq = 2`, trail.SealMismatch},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecord(t)
			tenantID := uuid.New()
			r.write(t, tenantID)
			if tt.want == trail.UnexpectedEvents {
				r.must(
					t,
					`INSERT INTO saga.audit_actions (id, tenant_id, at, kind, subject, verb) SELECT gen_random_uuid(), $1, now(), 'redrive', 'x', 'create'`,
					tenantID,
				)
				tt.meddle = `UPDATE saga.audit_actions SET txid = (SELECT from_txid FROM saga.audit_action_seals WHERE tenant_id = $1 AND seq = 2)
					WHERE tenant_id = $1 AND kind = 'redrive'`
			}
			r.must(t, tt.meddle, tenantID)
			v := r.verify(t, tenantID)
			if v.FirstBad == nil || v.FirstBad.Kind != tt.want || v.FirstBad.Seq != 2 && tt.want != trail.SealMismatch {
				t.Errorf("found %+v, want %s in seal 2", v.FirstBad, tt.want)
			}
		})
	}
}

// jq and sha256sum compute the same hashes for the same document.
func TestHashesCoverOrderedJSON(t *testing.T) {
	got := operator.Hash(map[string]any{"b": "<&\u2028é", "a": []int{1, 2}})
	want := operator.Hash(struct {
		A []int  `json:"a"`
		B string `json:"b"`
	}{[]int{1, 2}, "<&\u2028é"})
	if !bytes.Equal(got, want) || operator.Hash(nil) != nil {
		t.Errorf("%x and %x", got, want)
	}
}
