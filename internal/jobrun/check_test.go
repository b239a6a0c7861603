package jobrun_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/schedule"
)

func TestACompleteSpecIsInOrderAndStaysAsItIs(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]jobrun.Spec{
		"by hand":  {Type: jobrun.OnDemand, CommandName: "x", DefaultArgs: json.RawMessage("null")},
		"by time":  {Type: jobrun.OnTime, CommandName: "x", Schedule: &schedule.Spec{Type: schedule.Interval, Value: "1h"}},
		"by event": {Type: jobrun.OnEvent, CommandName: "x", Event: &jobrun.EventTrigger{EventType: "order.*", Match: map[string]json.RawMessage{"a.b": json.RawMessage("1")}}},
	} {
		full := s.Complete()
		if err := jobrun.CheckNew("job", &full); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if full.Queue != jobrun.DefaultQueue || full.Concurrency != jobrun.Allow || full.Retry.MaxAttempts != 1 ||
			full.DefaultArgs != nil {
			t.Errorf("%s: completed to %+v", name, full)
		}
		again, _ := json.Marshal(full.Complete())
		if once, _ := json.Marshal(full); string(once) != string(again) {
			t.Errorf("%s: completing %s again gives %s", name, once, again)
		}
	}
}

func TestEveryMistakeHasItsPointer(t *testing.T) {
	t.Parallel()
	s := jobrun.Spec{
		Type: "nightly", Description: strings.Repeat("x", jobrun.MaxDescription+1), TimeoutMS: -1, MaxLosses: 101,
		Priority: 101, QueueLimit: -1,
		Queue: "a b", Concurrency: "never", Misfire: "later", MisfireGraceMS: -1, CatchUpLimit: jobrun.MaxCatchUp +
			1, JitterMS: -1,
		Labels:   map[string]string{"": "x", "ok": strings.Repeat("x", jobrun.MaxWord+1)},
		Requires: map[string]string{"a=b": ""},
	}
	s.Retry.MaxAttempts, s.Retry.Multiplier, s.Retry.Jitter, s.Retry.InitialIntervalMS = jobrun.MaxRetries+
		1, 101, new(1.5), -1
	f := fault.As(jobrun.Check("", &s))
	if f == nil || f.Kind != fault.Invalid || f.Code != jobrun.CodeInvalid {
		t.Fatal(f)
	}
	var got []string
	for _, field := range f.Fields {
		got = append(got, field.Pointer)
	}
	slices.Sort(got)
	want := strings.Fields(`/catch_up_limit /command_name /concurrency_policy /description /jitter_ms /labels/ /labels/ok /max_losses /misfire_grace_ms
		/misfire_policy /name /priority /queue /queue_limit /required_labels/a=b /retry/initial_interval_ms /retry/jitter /retry/max_attempts /retry/multiplier /timeout_ms /type`)
	if !slices.Equal(got, want) {
		t.Errorf("mistakes at\n%v, want\n%v", got, want)
	}
	if !strings.Contains(f.Detail, "more") {
		t.Errorf("the detail %q does not say that there are others", f.Detail)
	}
}

func TestASchemaReachesForNothing(t *testing.T) {
	t.Parallel()
	for _, ref := range []string{"file:///etc/passwd", "http://127.0.0.1:1/x", "other.json", "/etc/passwd"} {
		if _, err := jobrun.ParseSchema(json.RawMessage(`{"$ref":"` + ref + `"}`)); fault.KindOf(err) != fault.Invalid ||
			strings.Contains(err.Error(), "root:") {
			t.Errorf("%s: %v", ref, err)
		}
	}
	s, err := jobrun.ParseSchema(json.RawMessage(`{"$defs":{"n":{"type":"integer"}},"properties":{"a/b":{"items":{"$ref":"#/$defs/n"}}},"required":["c"]}`))
	if err != nil {
		t.Fatal(err)
	}
	f := fault.As(s.Check("/args", json.RawMessage(`{"a/b":[1,"2"]}`)))
	if f == nil || len(f.Fields) != 2 || f.Fields[0].Pointer != "/args" || f.Fields[1].Pointer != "/args/a~1b/1" {
		t.Errorf("%+v", f)
	}
	if err := s.Check("/args", json.RawMessage(`{"c":0,"a/b":[12345678901234567890123]}`)); err != nil {
		t.Errorf("a large integer is refused: %v", err)
	}
	var none *jobrun.Schema
	if err := none.Check("/args", json.RawMessage(`7`)); err != nil {
		t.Error(err)
	}
	if err := none.Check("/args", make(json.RawMessage, jobrun.MaxArgs+1)); err == nil {
		t.Error("arguments of more than a megabyte are taken")
	}
}

func TestARescheduledDefinitionIsDueAtItsNextSlot(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)
	d := jobrun.Definition{Enabled: true,
		Spec: jobrun.Spec{Type: jobrun.OnTime, Schedule: &schedule.Spec{Type: schedule.HourlyAtMinute, Value: "15"}}}
	if r := d.Rescheduled(now); r.NextDueAt == nil || !r.NextDueAt.Equal(now.Add(45*time.Minute)) ||
		!r.LastMaterializedAt.Equal(now) {
		t.Errorf("due at %v", r.NextDueAt)
	}
	off, gone, by := d, d, d
	off.Enabled, gone.DeletedAt, by.Spec.Schedule = false, &now, nil
	for _, d := range []jobrun.Definition{off, gone, by} {
		if r := d.Rescheduled(now); r.NextDueAt != nil {
			t.Errorf("%+v is due at %v", d, r.NextDueAt)
		}
	}
}

func TestABackfillGoesThroughItsSlotsInItsOrder(t *testing.T) {
	t.Parallel()
	s, err := schedule.Spec{Type: schedule.HourlyAtMinute, Value: "0,30"}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var old, young []time.Time
	for _, newest := range []bool{false, true} {
		b := jobrun.Backfill{From: from, To: from.Add(50 * time.Hour), NewestFirst: newest}
		for {
			next := b.Next(s, 7)
			if len(next) == 0 {
				break
			}
			b.Cursor = &next[len(next)-1]
			if newest {
				young = append(young, next...)
			} else {
				old = append(old, next...)
			}
		}
	}
	slices.Reverse(young)
	if len(old) != 100 || !old[0].Equal(from) || !slices.EqualFunc(old, young, time.Time.Equal) {
		t.Errorf("%d slots from the oldest, %d from the newest", len(old), len(young))
	}
	d := jobrun.Definition{ID: uuid.New(), Spec: jobrun.Spec{Concurrency: jobrun.Forbid, Priority: -95}}
	b := jobrun.Backfill{Head: bulk.Head{ID: uuid.New()}}
	r := b.Run(&d, from, jobrun.Settings{}, jobrun.Moment{Now: from.Add(time.Hour), NewID: uuid.New})
	want := r
	want.Concurrency, want.Priority, want.AdmittedAt = jobrun.Queue, -jobrun.MaxPriority, nil
	want.BackfillID, want.ScheduledFor = b.ID, from
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("the run of a slot (-want +got):\n%s", diff)
	}
}
