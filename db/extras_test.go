package db_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// Two concurrent calls create each extra index once; a third one finds nothing to do.
func TestExtrasAreMadeOnceAndDropped(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	pool := open(t, dsn)
	before := shape(t, pool)
	var made [2][]string
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() {
			by := db.As(t.Context(), db.By{Actor: "cli", Operation: "skald migrate extras up"})
			var err error
			if made[i], err = db.MakeExtras(by, dsn); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	all := slices.Concat(made[0], made[1])
	var want, twins []string
	list, err := db.Extras(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Twin == "" {
			want = append(want, e.Name)
		} else {
			twins = append(twins, e.Name)
		}
		if e.Made != (e.Twin == "") || e.Made != e.Valid || e.Made != (e.Bytes > 0) {
			t.Errorf("%s: %+v", e.Name, e)
		}
	}
	if len(made[0]) != 0 && len(made[1]) != 0 || !slices.Equal(all, want) {
		t.Errorf("two runs at once made %v and %v, want %v in one of them", made[0], made[1], want)
	}
	if again, err := db.MakeExtras(t.Context(), dsn); err != nil || len(again) > 0 {
		t.Errorf("made again: %v, %v", again, err)
	}
	// An index that has an equivalent is created only when requested by name.
	if named, err := db.MakeExtras(t.Context(), dsn, twins...); err != nil || !slices.Equal(named, twins) {
		t.Errorf("made %v by name, want %v (%v)", named, twins, err)
	}
	if dropped, err := db.DropExtras(t.Context(), dsn, twins[0]); err != nil || !slices.Equal(dropped, twins[:1]) {
		t.Errorf("dropped %v by name, want %v (%v)", dropped, twins[:1], err)
	}
	if dropped, err := db.DropExtras(t.Context(), dsn); err != nil || len(dropped) != len(list)-1 {
		t.Errorf("dropped %v, want the %d others (%v)", dropped, len(list)-1, err)
	}
	if diff := cmp.Diff(before, shape(t, pool)); diff != "" {
		t.Errorf("what is left of them (-before +after):\n%s", diff)
	}
	onRecord := texts(t, pool, `SELECT verb || ' ' || actor || ' ' || jsonb_array_length(detail->'indexes') FROM saga.audit_actions WHERE subject = 'extras' ORDER BY txid`)
	told := []string{
		"extras-up cli 11", "extras-up system:migrate 4",
		"extras-down system:migrate 1", "extras-down system:migrate 14",
	}
	if diff := cmp.Diff(told, onRecord); diff != "" {
		t.Errorf("on record (-want +got):\n%s", diff)
	}
}

func TestAnExtraThatWasBrokenOffIsMadeAnew(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	pool := open(t, dsn)
	if _, err := db.MakeExtras(t.Context(), dsn, "idx_event_type"); err != nil {
		t.Fatal(err)
	}
	// The state that an interrupted CREATE INDEX CONCURRENTLY leaves behind.
	execute(t, pool, `UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'saga.idx_event_type'::regclass`)
	if made, err := db.MakeExtras(t.Context(), dsn, "idx_event_type"); err != nil || len(made) != 1 {
		t.Fatalf("made %v, %v", made, err)
	}
	if !ask[bool](t, pool, `SELECT indisvalid FROM pg_index WHERE indexrelid = 'saga.idx_event_type'::regclass`) {
		t.Error("no query can use it")
	}
}

func TestAnExtraThatIsNoneIsNotMade(t *testing.T) {
	t.Parallel()
	dsn := testdb.Empty(t)
	for _, change := range []func() ([]string, error){
		func() ([]string, error) { return db.MakeExtras(t.Context(), dsn, "idx_event_type", "idx_evnet_type") },
		func() ([]string, error) { return db.DropExtras(t.Context(), dsn, "saga_states_pkey") },
	} {
		changed, err := change()
		if err == nil || !strings.Contains(err.Error(), "there is no extra index") || len(changed) > 0 {
			t.Errorf("%v, %v", changed, err)
		}
	}
	// Without the tables, no index can be created.
	if made, err := db.MakeExtras(t.Context(), dsn, "idx_event_type"); err == nil || len(made) > 0 {
		t.Errorf("made %v", made)
	}
}
