package dlqdb_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestARedrivenLetterThatComesBackIsLinked(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	arrive := func(batch ...dlq.Arrival) int {
		t.Helper()
		n, err := m.Queue.Arrive(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	offset := int64(0)
	record := func(bounceOf uuid.UUID, on int) dlq.Arrival {
		offset++
		place := &dlq.Position{Topic: "orders.dlq." + m.Tenant.String(), Partition: 1, Offset: offset}
		l := m.NewLetter(func(l *dlq.Letter) {
			l.Source, l.Arrived = dlq.FromKafka, place
			if bounceOf != uuid.Nil {
				l.RootID, l.Generation = bounceOf, on+1
			}
		})
		l.NextRetryAt = new(pgtest.Now().Add(-time.Minute))
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
	for _, d := range m.ClaimDue(t, 10) {
		m.End(t, d, dlq.Acknowledged)
	}
	back := record(first.ID, 0)
	if n := arrive(back); n != 1 {
		t.Fatal("the bounce was not stored")
	}
	got := m.Read(t, back.ID)
	if got.RootID != first.ID || got.ParentID != first.ID || got.Generation != 1 {
		t.Errorf("linked as %+v", got)
	}
	if p := m.Read(t, first.ID); p.Status != dlq.Resolved || p.Resolution != dlq.Bounced {
		t.Errorf("its parent is %s %s", p.Status, p.Resolution)
	}
	// It comes back before the end of its retry is stored.
	d := m.ClaimDue(t, 10)[0]
	if d.ID != back.ID {
		t.Fatal("claimed another one")
	}
	again := record(first.ID, 1)
	arrive(again)
	m.End(t, d, dlq.Acknowledged)
	if p := m.Read(t, back.ID); p.Status != dlq.Resolved || p.Resolution != dlq.Bounced {
		t.Errorf("a parent whose retry ended later is %s %s", p.Status, p.Resolution)
	}
	if got := m.Read(t, again.ID); got.ParentID != back.ID || got.RootID != first.ID || got.Generation != 2 {
		t.Errorf("linked as %+v", got)
	}
	// A lineage of another tenant is not linked.
	stranger := record(pgtest.NewID(), 0)
	arrive(stranger)
	if got := m.Read(t, stranger.ID); got.ParentID != uuid.Nil {
		t.Errorf("a stranger has the parent %s", got.ParentID)
	}
}

func TestABounceIsNeverLostToARace(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	for i := range 20 {
		parent := m.PushAll(t, m.Due())[0]
		d := m.ClaimDue(t, 1)[0]
		child := m.NewLetter(func(l *dlq.Letter) {
			l.Source, l.RootID, l.Generation = dlq.FromKafka, parent.ID, 1
			l.Arrived = &dlq.Position{Topic: "race.dlq." + m.Tenant.String(), Offset: int64(i)}
		})
		var both sync.WaitGroup
		both.Go(func() { m.End(t, d, dlq.Acknowledged) })
		both.Go(func() {
			if _, err := m.Queue.Arrive(t.Context(), []dlq.Arrival{{Letter: child, BounceOf: parent.ID}}); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		if got := m.Read(t, parent.ID); got.Resolution != dlq.Bounced {
			t.Fatalf("round %d: the parent is %s %s", i, got.Status, got.Resolution)
		}
	}
}

// Each letter is stored as it arrived, regardless of which columns a batch sends only once, and
// whether it is new or partly known.
func TestALetterArrivesTheSameInEveryBatch(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	db := pgtest.Connect(t, m.Dsn).SQL()
	full, plain := m.NewLetter(m.Everything), m.NewLetter(func(l *dlq.Letter) { l.Source = dlq.FromKafka })
	offset := int64(0)
	another := func(l dlq.Letter) dlq.Arrival {
		offset++
		l.ID, l.Arrived = pgtest.NewID(), &dlq.Position{Topic: "same.dlq." + m.Tenant.String(), Offset: offset}
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
		if n, err := m.Queue.Arrive(t.Context(), tt.batch); err != nil || n != tt.stored {
			t.Fatalf("%s: stored %d, %v, want %d", tt.name, n, err, tt.stored)
		}
		for _, a := range tt.batch {
			got, want := m.Read(t, a.ID), a.Letter
			want.Seq = got.Seq
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: (-arrived +stored):\n%s", tt.name, d)
			}
			of := full
			if want.Assignee == "" {
				of = plain
			}
			if d := cmp.Diff(fmt.Sprint(dlqdb.TermsOf(&of)), pgtest.Ask[string](t, db, `SELECT translate(terms::text, '{,}', '[ ]') FROM dlq.dlq_messages WHERE id = '`+a.ID.String()+`'`)); d != "" {
				t.Errorf("%s: terms (-want +stored):\n%s", tt.name, d)
			}
		}
	}
	if n := pgtest.Ask[int64](t, db, `SELECT sum(received)::bigint FROM dlq.dlq_groups`); n != 9 {
		t.Errorf("groups have received %d", n)
	}
	if n := pgtest.Ask[int64](t, db, `SELECT sum(received)::bigint FROM dlq.dlq_arrivals`); n != 9 {
		t.Errorf("topics have received %d", n)
	}
}

func TestABatchWhoseCommitFailsReportsNothingStored(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	raw := pgtest.RawTables(t, m.Dsn)
	pgtest.Execute(t, raw, `CREATE FUNCTION dlq.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'the commit fails'; END $$`)
	pgtest.Execute(t, raw, `CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON dlq.dlq_messages DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION dlq.refuse()`)
	l := m.NewLetter(func(l *dlq.Letter) {
		l.Source, l.Arrived = dlq.FromKafka, &dlq.Position{Topic: "orders.dlq", Partition: 1, Offset: 1}
	})
	if n, err := m.Queue.Arrive(t.Context(), []dlq.Arrival{{Letter: l}}); err == nil || n != 0 {
		t.Errorf("%d are said to be stored, with the error %v", n, err)
	}
}

// A batch that is all new is stored by a different statement than one that is partly stored
// already, live or in the archive.
func TestABatchAddsTheSameByEitherInsertStatement(t *testing.T) {
	t.Parallel()
	start := pgtest.Now().Truncate(time.Minute)
	added := map[string]string{}
	for _, how := range []string{"all is new", "one is live", "one is archived"} {
		m := pgtest.NewLetterQueue(t)
		db := pgtest.Connect(t, m.Dsn).SQL()
		offset := int64(0)
		letter := func(topic, kind string, after time.Duration) dlq.Arrival {
			offset++
			l := m.NewLetter(func(l *dlq.Letter) {
				l.Source, l.OriginalTopic, l.Failure.Type = dlq.FromKafka, topic, kind
				l.Arrived = &dlq.Position{Topic: topic + ".dlq", Partition: int32(offset % 2), Offset: offset}
			})
			l.CreatedAt, l.UpdatedAt, l.Fingerprint = start.Add(after), start.Add(after), kind+strings.Repeat("0", 28)
			return dlq.Arrival{Letter: l}
		}
		arrive := func(want int, batch ...dlq.Arrival) {
			t.Helper()
			if n, err := m.Queue.Arrive(t.Context(), batch); err != nil || n != want {
				t.Fatalf("%s: %d letters of %d are stored, want %d: %v", how, n, len(batch), want, err)
			}
		}
		arrive(1, letter("orders", "back", 0))
		pgtest.Execute(t, db, `UPDATE dlq.dlq_groups SET state = 'RESOLVED'`)
		known := letter("orders", "seen", 0)
		arrive(1, known)
		if how == "one is archived" {
			pgtest.Execute(t, db, `UPDATE dlq.dlq_messages SET status = 'RESOLVED', resolution = 'MANUAL', terminal_at = now() - interval '40 days' WHERE id = $1`, known.ID)
			pgtest.Execute(t, db, `CALL dlq.archive_old_dlq_messages(30, 100)`)
		}
		batch := []dlq.Arrival{
			letter("orders", "back", 10*time.Second), letter("bills", "new", 70*time.Second),
			letter("bills", "new", 20*time.Second), letter("orders", "new", 30*time.Second),
		}
		if how == "all is new" {
			arrive(4, batch...)
		} else {
			again := known
			again.ID = pgtest.NewID()
			arrive(4, append(batch, again)...)
		}
		index := map[uuid.UUID]int{}
		for i, a := range batch {
			index[a.ID] = i
		}
		var all []string
		rows, err := db.QueryContext(t.Context(), `
			SELECT 'group ' || concat_ws(' ', left(fingerprint, 4), state, version, topic, error_type, received, first_seen - $1, last_seen - $1, updated_at - $1), sample_id FROM dlq.dlq_groups
			UNION ALL SELECT 'arrivals ' || concat_ws(' ', topic, minute - $1, received), NULL FROM dlq.dlq_arrivals
			UNION ALL SELECT 'told ' || concat_ws(' ', kind, left(subject, 4), verb), NULL FROM saga.audit_actions ORDER BY 1`, start)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var line string
			var sample uuid.NullUUID
			if err := rows.Scan(&line, &sample); err != nil {
				t.Fatal(err)
			}
			if i, ok := index[sample.UUID]; ok {
				line += fmt.Sprint(" of ", i)
			}
			all = append(all, line)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		added[how] = strings.Join(all, "\n")
	}
	want := `arrivals bills 00:00:00 1
arrivals bills 00:01:00 1
arrivals orders 00:00:00 4
group back REGRESSED 2 orders back 2 00:00:00 00:00:10 00:00:10 of 0
group new0 NEW 1 bills new 3 00:00:20 00:01:10 00:01:10 of 3
group seen NEW 1 orders seen 1 00:00:00 00:00:00 00:00:00
told dead_letter_group back regress`
	for how, got := range added {
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", how, d)
		}
	}
}
