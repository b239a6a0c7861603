package postgres_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

func TestARedrivenLetterThatComesBackIsLinked(t *testing.T) {
	t.Parallel()
	m := newMailroom(t)
	arrive := func(batch ...dlq.Arrival) int {
		t.Helper()
		n, err := m.queue.Arrive(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	offset := int64(0)
	record := func(bounceOf uuid.UUID, on int) dlq.Arrival {
		offset++
		place := &dlq.Place{Topic: "orders.dlq." + m.tenant.String(), Partition: 1, Offset: offset}
		l := m.letter(func(l *dlq.Letter) {
			l.Source, l.Arrived = dlq.FromKafka, place
			if bounceOf != uuid.Nil {
				l.RootID, l.Generation = bounceOf, on+1
			}
		})
		l.NextRetryAt = new(now().Add(-time.Minute))
		return dlq.Arrival{Letter: l, BounceOf: bounceOf, BounceOn: on}
	}
	first := record(uuid.Nil, 0)
	if n := arrive(first, record(uuid.Nil, 0)); n != 2 {
		t.Fatalf("stored %d", n)
	}
	if n := arrive(first); n != 0 { // read again after a crash
		t.Fatalf("stored %d of what was there", n)
	}
	// The usual order: redriven, then it comes back.
	for _, d := range m.claim(t, 10) {
		m.end(t, d, dlq.Acknowledged)
	}
	back := record(first.ID, 0)
	if n := arrive(back); n != 1 {
		t.Fatal("the bounce was not stored")
	}
	got := m.get(t, back.ID)
	if got.RootID != first.ID || got.ParentID != first.ID || got.Generation != 1 {
		t.Errorf("linked as %+v", got)
	}
	if p := m.get(t, first.ID); p.Status != dlq.Resolved || p.Resolution != dlq.Bounced {
		t.Errorf("its parent is %s %s", p.Status, p.Resolution)
	}
	// It comes back before the end of its retry is stored.
	d := m.claim(t, 10)[0]
	if d.ID != back.ID {
		t.Fatal("claimed another one")
	}
	again := record(first.ID, 1)
	arrive(again)
	m.end(t, d, dlq.Acknowledged)
	if p := m.get(t, back.ID); p.Status != dlq.Resolved || p.Resolution != dlq.Bounced {
		t.Errorf("a parent whose retry ended later is %s %s", p.Status, p.Resolution)
	}
	if got := m.get(t, again.ID); got.ParentID != back.ID || got.RootID != first.ID || got.Generation != 2 {
		t.Errorf("linked as %+v", got)
	}
	// Somebody else's lineage is a stranger.
	stranger := record(newID(), 0)
	arrive(stranger)
	if got := m.get(t, stranger.ID); got.ParentID != uuid.Nil {
		t.Errorf("a stranger has the parent %s", got.ParentID)
	}
}

func TestABounceIsNeverLostToARace(t *testing.T) {
	t.Parallel()
	m := newMailroom(t)
	for i := range 20 {
		parent := m.push(t, m.due())[0]
		d := m.claim(t, 1)[0]
		child := m.letter(func(l *dlq.Letter) {
			l.Source, l.RootID, l.Generation = dlq.FromKafka, parent.ID, 1
			l.Arrived = &dlq.Place{Topic: "race.dlq." + m.tenant.String(), Offset: int64(i)}
		})
		var both sync.WaitGroup
		both.Go(func() { m.end(t, d, dlq.Acknowledged) })
		both.Go(func() {
			if _, err := m.queue.Arrive(t.Context(), []dlq.Arrival{{Letter: child, BounceOf: parent.ID}}); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		if got := m.get(t, parent.ID); got.Resolution != dlq.Bounced {
			t.Fatalf("round %d: the parent is %s %s", i, got.Status, got.Resolution)
		}
	}
}

// However much of a batch travels once, and whether it is new or partly known,
// each letter is stored as it came.
func TestALetterArrivesTheSameInEveryBatch(t *testing.T) {
	t.Parallel()
	m := newMailroom(t)
	db := connect(t, m.dsn).SQL()
	full, plain := m.letter(m.everything), m.letter(func(l *dlq.Letter) { l.Source = dlq.FromKafka })
	offset := int64(0)
	another := func(l dlq.Letter) dlq.Arrival {
		offset++
		l.ID, l.Arrived = newID(), &dlq.Place{Topic: "same.dlq." + m.tenant.String(), Offset: offset}
		if l.DedupeKey != "" {
			l.DedupeKey = l.ID.String()
		}
		return dlq.Arrival{Letter: l}
	}
	known := another(plain)
	for _, tt := range []struct {
		name   string
		batch  []dlq.Arrival
		stored int
	}{
		{"all alike", []dlq.Arrival{known, another(plain), another(plain)}, 3},
		{"one with everything", []dlq.Arrival{another(full)}, 1},
		{"backwards", []dlq.Arrival{another(full), another(plain), another(full)}, 3},
		{"one is known", []dlq.Arrival{another(full), known, another(plain)}, 2},
		{"all are known", []dlq.Arrival{known, known}, 0},
	} {
		slices.Reverse(tt.batch)
		if n, err := m.queue.Arrive(t.Context(), tt.batch); err != nil || n != tt.stored {
			t.Fatalf("%s: stored %d, %v, want %d", tt.name, n, err, tt.stored)
		}
		for _, a := range tt.batch {
			got, want := m.get(t, a.ID), a.Letter
			want.Seq = got.Seq
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: (-arrived +stored):\n%s", tt.name, d)
			}
			of := full
			if want.Assignee == "" {
				of = plain
			}
			if d := cmp.Diff(fmt.Sprint(postgres.TermsOf(&of)), ask[string](t, db, `SELECT translate(terms::text, '{,}', '[ ]') FROM dlq.dlq_messages WHERE id = '`+a.ID.String()+`'`)); d != "" {
				t.Errorf("%s: terms (-want +stored):\n%s", tt.name, d)
			}
		}
	}
	if n := ask[int64](t, db, `SELECT sum(received)::bigint FROM dlq.dlq_groups`); n != 9 {
		t.Errorf("groups have received %d", n)
	}
	if n := ask[int64](t, db, `SELECT sum(received)::bigint FROM dlq.dlq_arrivals`); n != 9 {
		t.Errorf("topics have received %d", n)
	}
}
