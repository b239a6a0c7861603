package db_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// S2-02, S2-67, S2-93: steps have the metadata of their definition; events have that of their saga
// and of their step. The same holds in the archive.
func TestStepsAndEventsHaveMetadata(t *testing.T) {
	t.Parallel()
	s := tell(t)
	run := s.begin(new(int64(1)))
	for _, e := range s.stories()["completed"] {
		run = s.play(run, e, false)
	}
	steps := []string{"charge ", `label {"page": 7, "owner": "depot"}`, "reserve "}
	got := texts(t, s.pool, `SELECT name || ' ' || coalesce(metadata::text, '') FROM saga.saga_steps WHERE saga_id = $1 ORDER BY name`, run.ID)
	if diff := cmp.Diff(steps, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	check := func(when string) {
		t.Helper()
		const plain, ofLabel = ` {"owner": "shop", "region": "eu"}`, ` {"page": 7, "owner": "depot", "region": "eu"}`
		got := texts(t, s.pool, `SELECT DISTINCT coalesce(step_name, '') || ' ' || metadata::text FROM saga.saga_events WHERE saga_id = $1 ORDER BY 1`, run.ID)
		if diff := cmp.Diff([]string{plain, "charge" + plain, "label" + ofLabel, "reserve" + plain}, got); diff != "" {
			t.Errorf("events %s (-want +got):\n%s", when, diff)
		}
	}
	check("of a live saga")
	if n := ask[int](t, s.pool, `SELECT saga.cleanup_expired_sagas(now() + interval '1 hour')`); n != 1 {
		t.Fatalf("%d sagas archived", n)
	}
	check("of an archived one")
}
