package dlqdb_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// A record is identified by its place, which includes the topic's id. If one of two places lacks
// the id, the records are compared.
func TestARecordOfARecreatedTopicIsAnotherOne(t *testing.T) {
	t.Parallel()
	one, other := pgtest.NewID(), pgtest.NewID()
	none := uuid.Nil
	type record struct {
		life    uuid.UUID
		payload string
		stored  bool // whether it becomes a new letter
	}
	for _, tt := range []struct {
		name    string
		archive bool // what happens before the last record
		records []record
	}{
		{"read twice", false, []record{{one, "a", true}, {one, "a", false}}},
		{"another life", false, []record{{one, "a", true}, {other, "a", true}, {other, "a", false}, {one, "a", false}}},
		{"no id, read twice", false, []record{{none, "a", true}, {none, "a", false}}},
		{"no ids, another record", false, []record{{none, "a", true}, {none, "b", true}, {none, "b", false}, {none, "a", false}, {none, "c", true}}},
		{"from before ids were known, the same", false, []record{{none, "a", true}, {one, "a", false}}},
		{"from before ids were known, another one", false, []record{{none, "a", true}, {one, "b", true}, {one, "b", false}, {none, "a", false}}},
		{"the broker no longer tells", false, []record{{one, "a", true}, {none, "a", false}, {none, "b", true}, {none, "b", false}}},
		{"the broker tells later", false, []record{{none, "a", true}, {none, "b", true}, {one, "b", false}, {other, "a", false}, {one, "c", true}}},
		{"archived, read twice", true, []record{{one, "a", true}, {one, "a", false}}},
		{"archived, another life", true, []record{{one, "a", true}, {other, "a", true}}},
		{"archived without an id, the same", true, []record{{none, "a", true}, {one, "a", false}}},
		{"archived without an id, another one", true, []record{{none, "a", true}, {one, "b", true}}},
		{"archived without an id, and none known", true, []record{{none, "a", true}, {none, "b", true}}},
	} {
		for _, batched := range []bool{false, true} { // whether other, new letters arrive with it
			t.Run(fmt.Sprint(tt.name, ", batched: ", batched), func(t *testing.T) {
				t.Parallel()
				m := pgtest.NewLetterQueue(t)
				for i, r := range tt.records {
					if i == len(tt.records)-1 && tt.archive {
						m.ArchiveAll(t)
					}
					l := m.Arrived(r.life, 7, r.payload)
					batch := []dlq.Arrival{l}
					if batched {
						batch = append(batch, m.Arrived(r.life, int64(100+i), "x"))
					}
					n, err := m.Queue.Arrive(t.Context(), batch)
					if err != nil {
						t.Fatal(err)
					}
					if want := len(batch); n != want && r.stored || n != want-1 && !r.stored {
						t.Errorf("record %d, %s of life %s: %d of %d stored", i, r.payload, r.life, n, want)
					}
					if got, err := m.Get(t.Context(), m.Tenant, l.ID); (err == nil) != r.stored {
						t.Errorf("record %d: %v", i, err)
					} else if r.stored && (string(got.Content.Payload) != r.payload || got.Arrived.KnownTopic() != r.life ||
						got.Arrived.Offset != 7) {
						t.Errorf("record %d is stored as %q at %v", i, got.Content.Payload, got.Arrived)
					}
				}
			})
		}
	}
}

// Two records with identical bytes are distinguished by their timestamps.
func TestARecordWrittenAfterALetterWasStoredIsAnotherOne(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	start := pgtest.Now()
	for i, tt := range []struct {
		written time.Duration // from now
		stored  int
	}{{-time.Hour, 1}, {0, 0}, {30 * time.Second, 0}, {time.Hour, 1}, {time.Hour, 0}, {2 * time.Hour, 1}} {
		l := m.Arrived(uuid.Nil, 7, "a")
		l.Written = start.Add(tt.written)
		if n, err := m.Queue.Arrive(t.Context(), []dlq.Arrival{l}); err != nil || n != tt.stored {
			t.Errorf("record %d, written %s from now: %d stored, %v; want %d", i, tt.written, n, err, tt.stored)
		}
	}
}

// Nodes that read the same records at the same time store each of them once.
func TestNodesThatReadTheSameRecordsStoreThemOnce(t *testing.T) {
	t.Parallel()
	for _, life := range []uuid.UUID{pgtest.NewID(), uuid.Nil} {
		m := pgtest.NewLetterQueue(t)
		before := m.Arrived(uuid.Nil, 3, "of another life")
		if _, err := m.Queue.Arrive(t.Context(), []dlq.Arrival{before}); err != nil {
			t.Fatal(err)
		}
		const records = 20
		var nodes sync.WaitGroup
		for range 4 {
			nodes.Go(func() {
				var batch []dlq.Arrival
				for i := range int64(records) {
					batch = append(batch, m.Arrived(life, i, fmt.Sprint("record ", i)))
				}
				if _, err := m.Queue.Arrive(t.Context(), batch); err != nil {
					t.Error(err)
				}
			})
		}
		nodes.Wait()
		if n := pgtest.Ask[int64](t, pgtest.Connect(t, m.Dsn).SQL(), `SELECT count(*) FROM dlq.dlq_messages`); n != records+1 {
			t.Errorf("life %s: %d letters of %d records", life, n, records+1)
		}
	}
}

// A node of the previous version stores places without ids while newer nodes run.
func TestANodeOfTheLastVersionKnowsWhatANewerOneHasStored(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	raw := pgtest.RawTables(t, m.Dsn)
	last := `INSERT INTO dlq.dlq_messages (id, tenant_id, root_id, original_topic, error_message, dlq_topic, dlq_partition, dlq_offset)
		SELECT gen_random_uuid(), '` + m.Tenant.String() + `', gen_random_uuid(), 'orders', 'boom', 'orders.dlq', 0, o FROM generate_series(7, 8) AS o ON CONFLICT DO NOTHING`
	if _, err := m.Queue.Arrive(t.Context(), []dlq.Arrival{m.Arrived(pgtest.NewID(), 7, "a")}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		pgtest.Execute(t, raw, last)
	}
	if n := pgtest.Ask[int64](t, pgtest.Connect(t, m.Dsn).SQL(), `SELECT count(*) FROM dlq.dlq_messages`); n != 2 {
		t.Errorf("%d letters of 2 records", n)
	}
}

func TestARestoredLetterKeepsItsPlaceUnlessItIsTaken(t *testing.T) {
	t.Parallel()
	life := pgtest.NewID()
	for _, tt := range []struct {
		name          string
		old, newer    uuid.UUID
		keeps, stored bool // stored: the newer one, at the same place with another payload
	}{
		{"of another life", pgtest.NewID(), pgtest.NewID(), true, true},
		{"of an unknown life", uuid.Nil, pgtest.NewID(), false, true},
		{"of the same life", life, life, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := pgtest.NewLetterQueue(t)
			old, newer := m.Arrived(tt.old, 7, "a"), m.Arrived(tt.newer, 7, "b")
			for i, a := range []dlq.Arrival{old, newer} {
				want := 1
				if i == 1 && !tt.stored {
					want = 0
				}
				if n, err := m.Queue.Arrive(t.Context(), []dlq.Arrival{a}); err != nil || n != want {
					t.Fatal(n, err)
				}
				if i == 0 {
					m.ArchiveAll(t)
				}
			}
			l, err := m.Restore(t.Context(), m.Tenant, old.ID, pgtest.Now(), m.Action(old.Letter, "restore"))
			if err != nil {
				t.Fatal(err)
			}
			if (l.Arrived != nil) != tt.keeps || tt.keeps && *l.Arrived != *old.Arrived {
				t.Errorf("it is back with the place %v", l.Arrived)
			}
		})
	}
}

// An imported letter has its place, and is recognized when its record is read.
func TestAPushedPlaceIsKnown(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	life := pgtest.NewID()
	for _, tt := range []struct {
		first, then uuid.UUID
		payload     string
		duplicate   bool
	}{
		{life, life, "a", true}, {uuid.Nil, life, "a", true}, {life, uuid.Nil, "a", true},
		{life, pgtest.NewID(), "a", false}, {uuid.Nil, life, "b", false}, {life, uuid.Nil, "b", false},
	} {
		offset := pgtest.Now().UnixNano()
		first, then := m.Arrived(tt.first, offset, "a"), m.Arrived(tt.then, offset, tt.payload)
		if out, err := m.Push(t.Context(), []dlq.Letter{first.Letter}); err != nil || out[0].Duplicate || out[0].Err != nil {
			t.Fatal(out, err)
		}
		out, err := m.Push(t.Context(), []dlq.Letter{then.Letter})
		if err != nil || out[0].Err != nil {
			t.Fatal(out, err)
		}
		if out[0].Duplicate != tt.duplicate || tt.duplicate && out[0].Letter.ID != first.ID {
			t.Errorf("%+v: pushed as %+v", tt, out[0])
		}
		n, err := m.Queue.Arrive(t.Context(), []dlq.Arrival{m.Arrived(tt.then, offset, tt.payload)})
		if err != nil || n != 0 {
			t.Errorf("%+v: read again, %d were stored, %v", tt, n, err)
		}
	}
}
