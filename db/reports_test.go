package db_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/saga"
)

// library plays every story once and leaves one saga that has not begun.
func (s *story) library() map[string]saga.Instance {
	runs := map[string]saga.Instance{"pending": s.begin(nil)}
	for name, events := range s.stories() {
		run := s.begin(new(int64(1)))
		for _, e := range events {
			run = s.play(run, e, false)
		}
		runs[name] = run
	}
	return runs
}

func TestListViewsHoldExactlyTheirStates(t *testing.T) {
	t.Parallel()
	s := tell(t)
	runs := s.library()
	for view, holds := range map[string][]saga.State{
		"active_sagas":    {saga.Running, saga.StepCompleted, saga.Compensating},
		"failed_sagas":    {saga.Failed, saga.Cancelled, saga.TimedOut},
		"completed_sagas": {saga.Completed},
	} {
		want := map[string]bool{}
		for _, run := range runs {
			for _, state := range holds {
				if run.State == state {
					want[run.ID.String()] = true
				}
			}
		}
		got := map[string]bool{}
		for _, id := range texts(t, s.pool, `SELECT id FROM saga.`+view) {
			got[id] = true
		}
		if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
			t.Errorf("%s (-want +got):\n%s", view, diff)
		}
	}
	listViewsComeInTheirOrder(t, tell(t))
}

// The sagas of each list end, or change, in a different order from the one in which they began.
func listViewsComeInTheirOrder(t *testing.T, s *story) {
	t.Helper()
	node := int64(1)
	play := func(run saga.Instance, events ...saga.Event) {
		for _, e := range events {
			run = s.play(run, e, false)
		}
	}
	for view, ends := range map[string][]saga.Event{
		"active_sagas":    {s.done(`1`)},
		"completed_sagas": {s.done(`1`), s.done(`2`), s.done(`3`)},
		"failed_sagas":    {s.done(`1`), s.refused(), s.refused()},
	} {
		first, second, third := s.begin(&node), s.begin(&node), s.begin(&node)
		play(second, ends...)
		play(third, ends...)
		play(first, ends...)
		want := []string{first.ID.String(), third.ID.String(), second.ID.String()} // latest change first
		if view == "active_sagas" {
			want = []string{third.ID.String(), second.ID.String(), first.ID.String()} // latest creation first
		}
		if diff := cmp.Diff(want, texts(t, s.pool, `SELECT id FROM saga.`+view)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", view, diff)
		}
	}
}

func TestStatisticsAddUp(t *testing.T) {
	t.Parallel()
	s := tell(t)
	runs := s.library()
	var total, completed, failed, active, pending, compensated int
	var seconds float64
	var definition string
	if err := s.pool.QueryRowContext(t.Context(), `SELECT definition_id, total_instances, completed_count, failed_count, active_count, pending_count,
			compensated_count, avg_duration_seconds FROM saga.saga_statistics`).
		Scan(&definition, &total, &completed, &failed, &active, &pending, &compensated, &seconds); err != nil {
		t.Fatal(err)
	}
	want := map[saga.State]int{}
	for _, run := range runs {
		want[run.State]++
	}
	if definition != "order@1" || total != len(runs) || total != completed+failed+active+pending+compensated {
		t.Errorf("%s: %d sagas are %d completed, %d failed, %d active, %d pending and %d compensated; there are %d", definition, total, completed, failed, active, pending, compensated, len(runs))
	}
	counts := []int{want[saga.Completed], want[saga.Failed] + want[saga.Cancelled] + want[saga.TimedOut],
		want[saga.Running] + want[saga.Compensating], want[saga.Pending], want[saga.Compensated]}
	if diff := cmp.Diff(counts, []int{completed, failed, active, pending, compensated}); diff != "" {
		t.Errorf("completed, failed, active, pending, compensated (-want +got):\n%s", diff)
	}
	var all time.Duration
	var ended int
	for _, run := range runs {
		if run.StartedAt != nil && run.CompletedAt != nil {
			all, ended = all+run.CompletedAt.Sub(*run.StartedAt), ended+1
		}
	}
	if mean := all.Seconds() / float64(ended); math.Abs(seconds-mean) > 0.001 || ended == total {
		t.Errorf("a saga takes %v s on average; those %d of %d that have ended took %v s", seconds, ended, total, mean)
	}
	if rows := texts(t, s.pool, `SELECT definition_id FROM saga.saga_statistics`); len(rows) != 1 {
		t.Errorf("statistics of %v", rows)
	}
}

func TestInstancesAndSeed4sSagasShowTheWholeSaga(t *testing.T) {
	t.Parallel()
	s := tell(t)
	runs := s.library()
	for _, tt := range []struct{ name, current, result string }{
		{"completed", `{"vars": {}, "steps": {"label": {"output": [2]}, "charge": {"output": "three"}, "reserve": {"output": {"n": 1}}}}`, `{"label": [2], "charge": "three", "reserve": {"n": 1}}`},
		{"refused, undone", `{"vars": {}, "steps": {"label": {"output": 2}, "reserve": {"output": {"n": 1}}}}`, ``},
		{"pending", `{"vars": {}, "steps": {}}`, ``},
		{"timed out", `{"vars": {}, "steps": {"reserve": {"output": {"n": 1}}}}`, ``},
	} {
		run := runs[tt.name]
		at := func(when *time.Time) string {
			return ask[string](t, s.pool, `SELECT coalesce($1::timestamptz::text, 'never')`, when)
		}
		times := ask[string](t, s.pool, `SELECT concat_ws(' ', coalesce(started_at::text, 'never'), coalesce(completed_at::text, 'never'),
			coalesce(timed_out_at::text, 'never')) FROM saga.saga_instances WHERE id = $1`, run.ID)
		want := at(run.StartedAt) + " " + at(run.CompletedAt) + " " + at(run.TimedOutAt)
		if times != want || (run.State == saga.TimedOut) != (run.TimedOutAt != nil) ||
			(run.State == saga.Pending) != (run.StartedAt == nil) || run.State.Terminal() != (run.CompletedAt != nil) {
			t.Errorf("%s: started, ended, timed out %s; want %s", tt.name, times, want)
		}
		got := strings.Join(texts(t, s.pool, `SELECT unnest(ARRAY[definition_id, state::text, initial_data::text, current_data::text, coalesce(result_data::text, ''),
			coalesce(error->>'message', ''), retry_policy->>'max_attempts', timeout_ms::text,
			name, description, metadata::text, trace_id, span_id]) FROM saga.saga_instances WHERE id = $1`, run.ID), "\n")
		want = strings.Join([]string{"order@1", string(rune('0' + run.State)), `{"amount": 1.50}`, tt.current, tt.result,
			run.ErrorMessage(), "2", "60000", "the first", "of a test", `{"owner": "shop", "region": "eu"}`, "trace", "span"}, "\n")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, instance (-want +got):\n%s", tt.name, diff)
		}
		clean := run.Clean != nil && *run.Clean
		got = ask[string](t, s.pool, `SELECT concat_ws(' ', tenant_id, status, version, saga_type, jsonb_array_length(saga_data->'calls'), saga_data->'workflow'->>'name', timeout_at IS NOT NULL)
			FROM saga.sagas WHERE transaction_id = $1`, run.ID)
		logs := ask[string](t, s.pool, `SELECT count(*)::text FROM saga.saga_step_logs WHERE saga_id = $1`, run.ID)
		want = strings.Join([]string{s.id.String(), run.State.Lifecycle(clean),
			ask[string](t, s.pool, `SELECT $1::bigint::text`, run.Version), "order", logs, "order", "t"}, " ")
		if got != want {
			t.Errorf("%s: seed 4's saga is %q, want %q", tt.name, got, want)
		}
	}
}

// Seed 4: saga_data is the serialized model of a saga, with its steps, payloads and results. For a
// failed saga, it includes the steps that were never called.
func TestSagaDataIsTheWholeModel(t *testing.T) {
	t.Parallel()
	s := tell(t)
	runs := s.library()
	for name, want := range map[string]string{
		"completed":           `{"amount": 1.50} | 0 reserve 2 {"amount": 1.50} {"n": 1} | 1 label 2 {"amount": 1.50} [2] | 2 charge 2 {"amount": 1.50} three | {"label": [2], "charge": "three", "reserve": {"n": 1}}`,
		"turned back at once": `{"amount": 1.50} | 0 reserve 3 {"amount": 1.50} it did not work | 1 label 0 | 2 charge 0 | step "reserve": it did not work`,
		"refused, undone": `{"amount": 1.50} | 0 reserve 5 {"amount": 1.50} {"n": 1} undo 2 | 1 label 5 {"amount": 1.50} 2 undo 4` +
			` | 2 charge 3 {"amount": 1.50} it did not work | step "charge": it did not work`,
		"timed out": `{"amount": 1.50} | 0 reserve 5 {"amount": 1.50} {"n": 1} undo 2 | 1 label 3 {"amount": 1.50} it did not work | 2 charge 0 | the deadline passed`,
		"pending":   `{"amount": 1.50} | 0 reserve 0 | 1 label 0 | 2 charge 0`,
	} {
		got := ask[string](t, s.pool, `SELECT concat_ws(' | ', saga_data->>'payload', (SELECT string_agg(concat_ws(' ', step->>'index', step->>'name', step->>'state',
				step->>'payload', step->>'result', step->'error'->>'message', 'undo ' || (step->'compensation'->>'state')), ' | ' ORDER BY n)
			FROM jsonb_array_elements(saga_data->'steps') WITH ORDINALITY AS steps (step, n)),
			saga_data->>'result', saga_data->'error'->>'message') FROM saga.sagas WHERE transaction_id = $1`, runs[name].ID)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
