package dlqdb_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestUpkeepOfLetters(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	ctx, tally := operator.Tallied(t.Context())
	old := m.PushAll(t, m.NewLetter(func(l *dlq.Letter) { l.MaxRetries = 0 }))[0]
	m.PushAll(t, m.NewLetter(), m.Due())
	pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_messages SET resolution = 'DISCARDED', terminal_at = now() - interval '31 days' WHERE id = $1`, old.ID)
	m.ClaimDue(t, 10)
	b, err := m.Queue.Backlog(ctx)
	if err != nil || cmp.Diff(map[dlq.Status]int64{dlq.Pending: 1, dlq.Retrying: 1}, b.ByStatus) != "" ||
		b.Oldest.IsZero() {
		t.Fatalf("backlog %+v, %v", b, err)
	}
	leaving := func(days int, resolution dlq.Resolution, want int64) {
		t.Helper()
		pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_messages SET resolution = $2, terminal_at = now() - make_interval(days => $3) WHERE id = $1`,
			old.ID, resolution, days)
		if b, err := m.Queue.Backlog(ctx); err != nil || b.Leaving != want {
			t.Errorf("%s for %d days: %d letters leave within a week, %v; want %d", resolution, days, b.Leaving, err, want)
		}
	}
	leaving(82, dlq.Exhausted, 0) // it stays for three periods of 30 days
	leaving(84, dlq.Exhausted, 1)
	leaving(95, dlq.Poison, 1)
	leaving(31, dlq.Discarded, 0) // an operator has decided
	for name, f := range map[string]func(context.Context, int) (int, error){"archived": m.Queue.Archive,
		"then": m.Queue.Archive} {
		if _, err := f(ctx, 10); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if got := m.Read(t, old.ID); got.ArchivedAt == nil {
		t.Error("it is not archived")
	}
	pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_messages_archive SET archived_at = now() - interval '366 days' WHERE id = $1`, old.ID)
	if n, err := m.Queue.Purge(ctx, 10); err != nil || n != 1 {
		t.Fatalf("purged %d, %v", n, err)
	}
	pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_arrivals SET minute = minute - interval '3 days' WHERE tenant_id = $1`, m.Tenant)
	if n, err := m.Queue.Expire(ctx, 10); err != nil || n == 0 {
		t.Fatalf("expired %d, %v", n, err)
	}
	told := tally.Actions(operator.By{}, "dead_letters", pgtest.Now(), pgtest.NewID)
	if len(told) != 1 || told[0].TenantID != m.Tenant || string(told[0].Detail) != `{"dead_letters_archived":1,"dead_letters_deleted":1}` ||
		told[0].Actor != operator.SystemRetention {
		t.Errorf("the round tells %+v", told)
	}
}

// The letters of a batch are counted for each tenant, without those that other transactions archive
// in the meantime.
func TestUpkeepCountsLettersByTenant(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	other := pgtest.NewID()
	m.PushAll(t, m.NewLetter(), m.NewLetter(), m.NewLetter(func(l *dlq.Letter) { l.TenantID = other }))
	pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_messages SET status = 'DEAD', resolution = 'DISCARDED', terminal_at = now() - interval '31 days', next_retry_at = NULL`)
	for _, want := range []string{`{"dead_letters_archived":%d}`, `{"dead_letters_deleted":%d}`, ``} {
		ctx, tally := operator.Tallied(t.Context())
		n, err := m.Queue.Archive(ctx, 10)
		if err == nil && n == 0 {
			n, err = m.Queue.Purge(ctx, 10)
		}
		if err != nil || n != 3 && want != "" {
			t.Fatalf("%d letters, %v", n, err)
		}
		got := map[uuid.UUID]string{}
		for _, a := range tally.Actions(operator.By{}, "dead_letters", pgtest.Now(), pgtest.NewID) {
			got[a.TenantID] = string(a.Detail)
		}
		wanted := map[uuid.UUID]string{}
		if want != "" {
			wanted = map[uuid.UUID]string{m.Tenant: fmt.Sprintf(want, 2), other: fmt.Sprintf(want, 1)}
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_messages_archive SET archived_at = now() - interval '366 days'`)
	}
}

func TestThePolicyOfATopic(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	put := func(topic string, retries int) {
		pgtest.Execute(t, m.DB.SQL(), fmt.Sprintf(`
			INSERT INTO dlq.dlq_policies (tenant_id, topic, version, max_retries, backoff, auto_retry, ordered, retention_days, archive_days, max_generations, alert, updated_at)
			VALUES ($1, $2, 1, %d, '{"initial_interval_ms": 5}', true, false, 1, 2, 3, '{"count": 9}', now())`, retries), m.Tenant, topic)
	}
	get := func(topic string) dlq.Policy {
		t.Helper()
		p, err := m.Queue.PolicyOf(t.Context(), m.Tenant, topic)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := get("a"); p.MaxRetries != dlq.DefaultPolicy.MaxRetries || p.Version != 0 {
		t.Errorf("without any: %+v", p)
	}
	put("", 7)
	put("b", 8)
	if p := get("c"); p.MaxRetries != 7 || p.Alert.Count != 9 || p.Backoff.InitialIntervalMS != 5 {
		t.Errorf("the tenant's: %+v", p)
	}
	if p := get("b"); p.MaxRetries != 8 {
		t.Errorf("its own: %+v", p)
	}
	if p := get("a"); p.MaxRetries != dlq.DefaultPolicy.MaxRetries {
		t.Errorf("within a second nobody asks again, but got %+v", p)
	}
}
