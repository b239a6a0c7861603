package dlqdb_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func TestALetterIsReadAsItWasPushed(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	for name, change := range map[string]func(*dlq.Letter){
		"with everything":  b.Everything,
		"with nothing":     func(*dlq.Letter) {},
		"an empty payload": func(l *dlq.Letter) { l.Content = dlq.Content{Key: []byte{}, Payload: []byte{}} },
		"dead at once":     func(l *dlq.Letter) { l.MaxRetries = 0 },
		"bytes":            func(l *dlq.Letter) { l.Content.Payload = []byte{0, 1, 0xff} },
		"a JSON text that jsonb would change": func(l *dlq.Letter) {
			l.Content.Payload = []byte(" {\"b\" : 1.00, \"a\": [ ] }\n")
		},
		"JSON that is not strict": func(l *dlq.Letter) { l.Content.Payload = []byte(`{"a":1,"a":2}`) },
		"a large payload":         func(l *dlq.Letter) { l.Content.Payload = []byte(`"` + strings.Repeat("x", 300<<10) + `"`) },
	} {
		t.Run(name, func(t *testing.T) {
			want := b.PushAll(t, b.NewLetter(change))[0]
			if want.Seq == 0 {
				t.Error("it has no place in the order of arrival")
			}
			if diff := cmp.Diff(want, b.Read(t, want.ID)); diff != "" {
				t.Errorf("(-pushed +read):\n%s", diff)
			}
		})
	}
}

func TestALetterWithAKnownDedupeKeyIsNotStoredAgain(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	keyed := func(key string) dlq.Letter {
		return b.NewLetter(func(l *dlq.Letter) { l.DedupeKey = key })
	}
	first := b.PushAll(t, keyed("one"))[0]
	batch := []dlq.Letter{keyed("one"), keyed("two"), keyed("two"), b.NewLetter(), keyed("")}
	pushed, err := b.Push(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	var duplicates []bool
	for _, p := range pushed {
		duplicates = append(duplicates, p.Duplicate)
	}
	if diff := cmp.Diff([]bool{true, false, true, false, false}, duplicates); diff != "" {
		t.Errorf("duplicates (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(first, pushed[0].Letter); diff != "" {
		t.Errorf("the stored letter (-want +got):\n%s", diff)
	}
	if pushed[2].Letter.ID != batch[1].ID {
		t.Error("the second of a batch is not told the first")
	}
	// For another tenant, it is a different key.
	other := b
	other.Tenant = pgtest.NewID()
	if l := other.PushAll(t, other.NewLetter(func(l *dlq.Letter) { l.DedupeKey = "one" }))[0]; l.TenantID == b.Tenant {
		t.Error("a tenant's key is known to others")
	}
	// A push is repeated after its response was lost.
	again, err := b.Push(t.Context(), batch[3:4])
	if err != nil || !again[0].Duplicate || again[0].Letter.ID != batch[3].ID {
		t.Errorf("the same letter again: %+v, %v", again, err)
	}
	stranger := batch[3]
	stranger.TenantID = pgtest.NewID()
	if again, err = b.Push(t.Context(), []dlq.Letter{stranger}); err != nil || again[0].Duplicate ||
		!fault.IsCode(again[0].Err, dlq.CodeConflict) || again[0].Letter.TenantID == b.Tenant {
		t.Errorf("an id of somebody else's letter: %+v, %v", again, err)
	}
}

func TestARecordOfKafkaIsStoredOnce(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	at := func(offset int64) dlq.Letter {
		return b.NewLetter(func(l *dlq.Letter) {
			l.Source, l.Arrived = dlq.FromKafka, &dlq.Position{Topic: "orders.dlq", Partition: 2, Offset: offset}
		})
	}
	b.PushAll(t, at(7))
	// Out of order, and in the order of their offsets afterwards.
	pushed, err := b.Push(t.Context(), []dlq.Letter{at(9), at(7), at(8)})
	if err != nil || pushed[0].Duplicate || !pushed[1].Duplicate || pushed[2].Letter.Seq >= pushed[0].Letter.Seq {
		t.Errorf("pushed %+v, %v", pushed, err)
	}
	// It stays known when its letter is archived, because offsets may be read again.
	super := pgtest.Observer(t, b.Dsn)
	pgtest.Execute(t, super, `UPDATE dlq.dlq_messages SET status = 'RESOLVED', terminal_at = now() - interval '31 days' WHERE dlq_offset = 7`)
	if n := pgtest.Ask[int](t, super, `SELECT dlq.archive_batch(NULL, 30, 10)`); n != 1 {
		t.Fatalf("%d letters were archived, want 1", n)
	}
	if pushed, err = b.Push(t.Context(), []dlq.Letter{at(7), at(10)}); err != nil || !pushed[0].Duplicate ||
		pushed[1].Duplicate {
		t.Errorf("pushed once more: %+v, %v", pushed, err)
	}
}

func TestOneLetterThatIsRefusedLeavesTheOthers(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	long := b.NewLetter(func(l *dlq.Letter) { l.ConsumerGroup = strings.Repeat("g", 300) })
	pushed, err := b.Push(t.Context(), []dlq.Letter{b.NewLetter(), long, b.NewLetter()})
	if err != nil || pushed[0].Err != nil || fault.KindOf(pushed[1].Err) != fault.Invalid || pushed[2].Err != nil {
		t.Fatalf("%+v, %v", pushed, err)
	}
	b.Read(t, pushed[0].Letter.ID)
	b.Read(t, pushed[2].Letter.ID)
	if _, err := b.Get(t.Context(), b.Tenant, long.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("the refused one: %v", err)
	}
}

// Concurrent batches with the same groups, topics and dedupe keys in any order.
func TestConcurrentPushesAgree(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	const writers, batches, size = 6, 8, 20
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range batches {
				var batch []dlq.Letter
				for k := range size {
					batch = append(batch, b.NewLetter(func(l *dlq.Letter) {
						n := (w*7 + i*3 + k*3) % size // each writer uses another order
						l.Failure.Type, l.OriginalTopic = fmt.Sprint("E", n%9), fmt.Sprint("topic-", n%7)
						if n == 0 {
							l.DedupeKey = fmt.Sprint("key-", i)
						}
					}))
				}
				if _, err := b.Push(t.Context(), batch); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	stored := writers*batches*(size-1) + batches
	for what, query := range map[string]string{
		"letters":  `SELECT count(*) FROM dlq.dlq_messages`,
		"groups":   `SELECT sum(received)::int FROM dlq.dlq_groups`,
		"arrivals": `SELECT sum(received)::int FROM dlq.dlq_arrivals`,
	} {
		if got := pgtest.Ask[int](t, b.DB.SQL(), query); got != stored {
			t.Errorf("%s: %d, want %d", what, got, stored)
		}
	}
}

func TestAResolvedGroupRegressesWithItsNextLetter(t *testing.T) {
	t.Parallel()
	b := pgtest.NewLetterStore(t)
	first := b.PushAll(t, b.NewLetter())[0]
	group := func() string {
		return pgtest.Ask[string](t, b.DB.SQL(), `SELECT concat_ws(' ', state, version, received, sample_id) FROM dlq.dlq_groups WHERE fingerprint = '`+first.Fingerprint+`'`)
	}
	if got, want := group(), fmt.Sprint("NEW 1 1 ", first.ID); got != want {
		t.Errorf("a new group is %s, want %s", got, want)
	}
	pgtest.Execute(t, b.DB.SQL(), `UPDATE dlq.dlq_groups SET state = 'RESOLVED'`)
	next := b.PushAll(t, b.NewLetter(), b.NewLetter())
	if got, want := group(), fmt.Sprint("REGRESSED 2 3 ", next[1].ID); got != want {
		t.Errorf("after two more it is %s, want %s", got, want)
	}
	last := b.PushAll(t, b.NewLetter())[0]
	if got, want := group(), fmt.Sprint("REGRESSED 2 4 ", last.ID); got != want {
		t.Errorf("after another one it is %s, want %s", got, want)
	}
	told := pgtest.Ask[string](t, b.DB.SQL(), `SELECT string_agg(concat_ws(' ', kind, subject, verb, actor), '; ') FROM saga.audit_actions WHERE verb <> 'push' AND tenant_id = '`+b.Tenant.String()+`'`)
	if want := "dead_letter_group " + first.Fingerprint + " regress "; told != want {
		t.Errorf("told %q, want %q", told, want)
	}
}

func TestSealedLettersAreUnreadableInTheDatabase(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		on   bool
	}{{"with encryption", true}, {"without, or the test would prove nothing", false}} {
		t.Run(tt.name, func(t *testing.T) {
			keys := pgtest.Keyring(t, pgtest.KeyOne)
			if !tt.on {
				keys = nil
			}
			b := pgtest.LetterStore{DB: pgtest.ConnectWith(t, testdb.DSN(t), keys), Tenant: pgtest.NewID()}
			b.Letters = dlqdb.NewLetters(b.DB, dlq.DefaultPolicy)
			want := b.PushAll(t, b.NewLetter(b.Everything, func(l *dlq.Letter) {
				l.Content = dlq.Content{Key: []byte(pgtest.Canary), Payload: pgtest.Says("payload"),
					Headers: []dlq.Header{{Name: pgtest.Canary, Value: []byte(pgtest.Canary)}}}
				l.Failure.Stack = "at " + pgtest.Canary
			}))[0]
			if diff := cmp.Diff(want, b.Read(t, want.ID)); diff != "" {
				t.Errorf("(-pushed +read):\n%s", diff)
			}
			all := pgtest.Ask[string](t, b.DB.SQL(), `SELECT string_agg(m::text || encode(coalesce(m.payload_raw, ''), 'escape') || encode(coalesce(m.headers, ''), 'escape')
				|| encode(coalesce(m.message_key, ''), 'escape'), '') FROM dlq.dlq_messages m`)
			if strings.Contains(all, pgtest.Canary) == tt.on {
				t.Errorf("the row shows the canary: %v", !tt.on == false)
			}
			if got := pgtest.Ask[bool](t, b.DB.SQL(), `SELECT payload IS NULL FROM dlq.dlq_messages`); got != tt.on {
				t.Errorf("there is no view of the payload: %v", got)
			}
			if tt.on && bytes.Contains([]byte(all), []byte(`{"payload"`)) {
				t.Error("the payload is shown")
			}
		})
	}
}
