package dlqdb_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestTakingOneLetter(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	take := func(l dlq.Letter, change func(*dlq.Claim)) (dlq.Drive, error) {
		c := dlq.Claim{TenantID: m.Tenant, LetterID: l.ID, Routes: dlq.Routes{Kinds: pgtest.KafkaOnly}, Actor: "ada",
			By: m.Action(l, dlq.VerbRetry)}
		if change != nil {
			change(&c)
		}
		return m.Queue.Take(t.Context(), c, time.Minute)
	}
	pending := m.PushAll(t, m.NewLetter())[0]
	dead := m.PushAll(t, m.NewLetter(func(l *dlq.Letter) { l.MaxRetries = 0 }))[0]
	older := m.NewLetter(func(l *dlq.Letter) { l.Content.Key = []byte("k") })
	younger := m.NewLetter(func(l *dlq.Letter) { l.Content.Key = []byte("k") })
	older.Ordered, younger.Ordered = true, true
	m.PushAll(t, older)
	younger = m.PushAll(t, younger)[0]
	for _, tt := range []struct {
		name   string
		letter dlq.Letter
		change func(*dlq.Claim)
		kind   fault.Kind
		code   string
	}{
		{"one that is not there", m.NewLetter(), nil, fault.NotFound, dlq.CodeNotFound},
		{"another tenant's", pending, func(c *dlq.Claim) { c.TenantID = pgtest.NewID() }, fault.NotFound, dlq.CodeNotFound},
		{"an old version", pending, func(c *dlq.Claim) { c.Version = 7 }, fault.Precondition, dlq.CodeStale},
		{"a dead one without force", dead, nil, fault.Conflict, dlq.CodeConflict},
		{"one for a target that cannot be reached", pending, func(c *dlq.Claim) { c.Routes.Kinds = nil }, fault.Unavailable, dlq.CodeNoKafka},
		{"one to a target that cannot be reached", pending, func(c *dlq.Claim) { c.Target = &dlq.Target{Kind: dlq.ToHTTP} }, fault.Unavailable, dlq.CodeNoKafka},
		{"one whose key is blocked", younger, func(c *dlq.Claim) { c.Force = true }, fault.Conflict, dlq.CodeKeyBlocked},
	} {
		before := pgtest.Ask[int](t, m.DB.SQL(), `SELECT count(*) FROM dlq.dlq_messages WHERE status = 'RETRYING'`)
		_, err := take(tt.letter, tt.change)
		if f := fault.As(err); f == nil || f.Kind != tt.kind || f.Code != tt.code {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.code)
		}
		if after := pgtest.Ask[int](t, m.DB.SQL(), `SELECT count(*) FROM dlq.dlq_messages WHERE status = 'RETRYING'`); after != before {
			t.Errorf("%s: it was claimed", tt.name)
		}
	}

	d, err := take(pending, func(c *dlq.Claim) {
		c.Version = pending.Version
		c.Target = &dlq.Target{Kind: dlq.ToKafka, Topic: "elsewhere"}
		c.Revision = &dlq.Revision{LetterID: pending.ID, Content: dlq.Content{Payload: []byte(`{"fixed":true}`)},
			Author: "ada", Reason: "typo", CreatedAt: pgtest.Now(), Patch: []byte(`[{"op":"test","path":"","value":1}]`)}
	})
	if err != nil {
		t.Fatal(err)
	}
	want := d
	want.Send.Payload, want.Content.Payload, want.Revision = []byte(`{"fixed":true}`), nil, 1
	want.To.Topic, want.Actor, want.Forced, want.Number = "elsewhere", "ada", false, 1
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("drive (-want +got):\n%s", diff)
	}
	if n := pgtest.Ask[int](t, m.DB.SQL(), `SELECT count(*) FROM saga.audit_actions WHERE subject = $1 AND verb = 'retry' AND actor = 'ada'`, pending.ID.String()); n != 1 {
		t.Errorf("%d actions were noted", n)
	}
	if _, err := take(pending, nil); !fault.IsCode(err, dlq.CodeConflict) {
		t.Errorf("a second claim: %v", err)
	}

	forced, err := take(dead, func(c *dlq.Claim) { c.Force = true })
	if err != nil || !forced.Forced || forced.Was != dlq.Exhausted {
		t.Fatalf("forced %+v, %v", forced, err)
	}
	if !m.End(t, forced, dlq.FailedDrive) {
		t.Error("its end was not stored")
	}
	if got := m.Read(t, dead.ID); got.Status != dlq.Dead || got.Resolution != dlq.Exhausted {
		t.Errorf("a forced retry that failed leaves it %s %s", got.Status, got.Resolution)
	}
}
