package jobdb_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// standard are the default settings.
func standard(context.Context) (jobrun.Settings, error) { return jobrun.NewSettings(1, nil), nil }

func TestEventsAreOnePerDedupeKeyWithinTheWindow(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	events := jobdb.NewEvents(jobdb.NewDB(b.DB, pgtest.JobChance, nil), standard)
	tenant, other := pgtest.NewID(), pgtest.NewID()
	publish := func(tenant uuid.UUID, typ, key string) (jobrun.PublishedEvent, bool) {
		t.Helper()
		e, created, err := events.Publish(t.Context(), tenant, jobrun.NewEvent{ID: pgtest.NewID(), Type: typ, DedupeKey: key,
			Payload: []byte(`{"n":1}`), CorrelationID: "c-1"})
		if err != nil {
			t.Fatal(err)
		}
		return e, created
	}
	first, created := publish(tenant, "order.paid", "k")
	if !created {
		t.Fatal("the first one was there before")
	}
	again, created := publish(tenant, "order.paid", "k")
	if created || again.ID != first.ID {
		t.Errorf("the second one is %s, created %v; want the first one, %s", again.ID, created, first.ID)
	}
	for _, tt := range []struct {
		tenant   uuid.UUID
		typ, key string
	}{{tenant, "order.sent", "k"}, {other, "order.paid", "k"}, {tenant, "order.paid", "l"}, {tenant, "order.paid", ""},
		{tenant, "order.paid", ""}} {
		if _, created := publish(tt.tenant, tt.typ, tt.key); !created {
			t.Errorf("%+v counts as the first one", tt)
		}
	}
	pgtest.Execute(t, pgtest.Observer(t, b.Dsn), `UPDATE jobs.events SET created_at = created_at - interval '25 hours' WHERE id = $1`, first.ID)
	later, created := publish(tenant, "order.paid", "k")
	if !created || later.ID == first.ID {
		t.Error("the key counts after its window")
	}
	stored, err := events.Event(t.Context(), tenant, later.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := stored
	want.Type, want.Payload, want.DedupeKey, want.CorrelationID = "order.paid", json.RawMessage(`{"n":1}`), "k", "c-1"
	want.ProcessedAt = nil
	if diff := cmp.Diff(want, stored); diff != "" || stored.OccurredAt == nil {
		t.Errorf("stored, of %v (-want +got):\n%s", stored.OccurredAt, diff)
	}
	if _, err := events.Event(t.Context(), other, later.ID); !fault.IsCode(err, jobrun.CodeEventNotFound) {
		t.Errorf("another tenant gets %v", err)
	}
}

func TestEventsAreListedByFilterAndPage(t *testing.T) {
	t.Parallel()
	events := jobdb.NewEvents(jobdb.NewDB(pgtest.NewLetterStore(t).DB, pgtest.JobChance, nil), standard)
	tenant := pgtest.NewID()
	for range 5 {
		if _, _, err := events.Publish(t.Context(), tenant, jobrun.NewEvent{ID: pgtest.NewID(), Type: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := events.Publish(t.Context(), tenant, jobrun.NewEvent{ID: pgtest.NewID(), Type: "b",
		CorrelationID: "c"}); err != nil {
		t.Fatal(err)
	}
	seen := map[uuid.UUID]bool{}
	var after *page.TimeID
	for {
		found, err := events.ListEvents(t.Context(), tenant, jobrun.EventFilter{Type: "a"},
			page.ByTime{Limit: 2, After: after, Total: true, TotalCap: 4})
		if err != nil {
			t.Fatal(err)
		}
		if found.Total != 4 || !found.TotalCapped {
			t.Fatalf("counted %d, capped %v; want 4, capped", found.Total, found.TotalCapped)
		}
		for _, e := range found.Items {
			seen[e.ID] = true
		}
		if !found.More {
			break
		}
		last := found.Items[len(found.Items)-1]
		after = &page.TimeID{At: last.CreatedAt, ID: last.ID}
	}
	if len(seen) != 5 {
		t.Errorf("the pages have %d events; want 5", len(seen))
	}
	for most, capped := range map[int64]bool{0: false, 4: true, 5: false, 6: false} {
		found, err := events.ListEvents(t.Context(), tenant, jobrun.EventFilter{Type: "a"},
			page.ByTime{Limit: 2, Total: true, TotalCap: most})
		if want := int64(5); err != nil || found.TotalCapped != capped || !capped && found.Total != want {
			t.Errorf("5 events counted up to %d: %d, capped %v, %v", most, found.Total, found.TotalCapped, err)
		}
	}
	yes := true
	for name, tt := range map[string]struct {
		f    jobrun.EventFilter
		want int
	}{
		"all": {jobrun.EventFilter{}, 6}, "processed": {jobrun.EventFilter{Processed: &yes}, 0}, "correlation": {jobrun.EventFilter{CorrelationID: "c"}, 1},
		"to": {jobrun.EventFilter{To: time.Now().Add(-time.Hour)}, 0}, "from": {jobrun.EventFilter{From: time.Now().Add(-time.Hour)}, 6},
	} {
		found, err := events.ListEvents(t.Context(), tenant, tt.f, page.ByTime{Limit: 100})
		if err != nil || len(found.Items) != tt.want {
			t.Errorf("%s: %d events, %v; want %d", name, len(found.Items), err, tt.want)
		}
	}
}
