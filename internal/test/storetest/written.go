package storetest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/skald-saga/skald/internal/saga"
)

// written: a saga that is read from the store must continue exactly as if its driver still had it
// in memory (invariant I7).
var written = []contract{
	{"after every commit, the rebuilt run equals the driver's", writtenStepByStep},
	{"rebuilt calls are byte-equal whatever the payload and the outputs are", writtenShapes},
	{"every field of a step log reads back", writtenLogs},
	{"a RUNNING row is completed by the answer, keeping its id and start", writtenSlow},
	{"an error reads back with its details and its cause", writtenError},
}

// scenarios returns paths through a saga by name; each event is committed separately.
func (f *fixture) scenarios() map[string][]saga.Event {
	slow := func() saga.Event { return saga.Slow{StartedAt: f.now()} }
	cancel, deadline := saga.CancelRequested{By: "bob", Reason: "changed my mind"}, saga.DeadlinePassed{}
	return map[string][]saga.Event{
		"every step is done":            {f.done(`{"a":1}`), f.done(``), f.done(`[1,2]`)},
		"retried, then done":            {f.unanswered(), f.done(`1`), f.unanswered(), f.done(`"x"`), f.done(`null`)},
		"refused at once":               {f.refused(`{"why":"no"}`)},
		"refused late, undone":          {f.done(`{"a":1}`), f.done(`{"b":2}`), f.refused(``), f.unanswered(), f.done(`{"undone":true}`)},
		"given up in doubt, undone":     {f.done(`{}`), f.done(`{}`), f.unanswered(), f.unanswered(), f.done(``), f.done(``)},
		"undo refused, resumed, undone": {f.done(`{}`), f.refused(``), f.refused(`"no"`), saga.ResumeRequested{By: "op"}, f.done(``)},
		"slow, then done":               {slow(), f.done(`{"a":1}`), slow(), f.unanswered(), slow(), f.done(``), f.done(``)},
		"slow undo":                     {f.done(`{}`), f.refused(``), slow(), f.unanswered(), slow(), f.done(``)},
		"cancelled in flight":           {f.done(`{"a":1}`), cancel, f.done(`{"b":2}`), f.done(``)},
		"cancelled between calls":       {f.done(`{"a":1}`), f.unanswered(), cancel, saga.Turned{}, f.done(``)},
		"deadline while going forward":  {f.done(`{}`), deadline, f.unanswered(), f.done(``)},
		"deadline while undoing":        {f.done(`{}`), f.refused(``), deadline, f.unanswered(), saga.ResumeRequested{By: "op"}, f.done(``)},
		"compensated by an operator":    {f.done(`{}`), saga.CompensateRequested{By: "op", Reason: "test"}, saga.Turned{}, f.done(``)},
		"nothing ran":                   {cancel, saga.Turned{}},
	}
}

func writtenStepByStep(f *fixture) {
	for name, events := range f.scenarios() {
		f.t.Run(name, func(t *testing.T) {
			f := f.in(t)
			run := f.stored(f.owned(f.owner, everything))[0]
			f.check(run)
			for i, e := range events {
				run = f.play(run, e)
				f.check(run)
				if t.Failed() {
					t.Fatalf("after event %d, %#v", i, e)
				}
			}
		})
	}
}

// shapes returns JSON values in the canonical form in which the edge passes them on.
func shapes() []json.RawMessage {
	var out []json.RawMessage
	for _, src := range []string{
		`null`, `true`, `0`, `-0.0`, `1.50`, `1e3`, `1E-7`, `123456789012345678901234567890`, `0.1000000000000000055511151231257827`,
		`""`, `"\\u0000"`, `"\u0001\u001f\u007f\"\\\/"`, `"<script>&amp;\u2028\u2029</script>"`, `"поток ☃ 𝄞 \ud834\udd1e"`,
		`[]`, `{}`, `[null,[],{},[[]],0.0]`, `{"b":1,"aa":2,"":3,"a":null}`, `{"é":1,"zz":2,"𝄞":3,"a\u0001b":4}`,
		`{"sameKey":{"sameKey":{"sameKey":1}},"order":[{"n":1.0},{"n":1.00},{"n":1}]}`,
		strings.Repeat(`{"k":[`, 30) + strings.Repeat(`]}`, 30), `{"text":"` + strings.Repeat("日本\\n", 20_000) + `"}`,
	} {
		out = append(out, json.RawMessage(canonical(json.RawMessage(src))))
	}
	return append(out, nil)
}

func writtenShapes(f *fixture) {
	var batch []saga.NewSaga
	values := shapes()
	for _, value := range values {
		batch = append(batch, f.owned(f.owner, func(n *saga.NewSaga) { n.Payload = value }))
	}
	runs := f.stored(batch...)
	sameCalls := func() {
		for i, run := range runs {
			l := f.load(run.ID)
			rebuilt := saga.Rebuild(l.Saga, f.def, l.Logs)
			want, got := run.Call(saga.Defaults{}), rebuilt.Call(saga.Defaults{})
			if !bytes.Equal(want.Body, got.Body) {
				f.t.Fatalf(
					"payload %.100s, %s %s:\nsent    %.1000s\nrebuilt %.1000s",
					values[i],
					want.Action,
					want.Step,
					want.Body,
					got.Body,
				)
			}
			want.Body, got.Body = nil, nil
			if diff := cmp.Diff(want, got); diff != "" {
				f.t.Fatalf("payload %.100s (-sent +rebuilt):\n%s", values[i], diff)
			}
		}
	}
	// The outputs differ from the payload. The last step is given up with an unknown outcome, so it
	// is compensated, and then the first step is.
	for _, event := range []func(i int) saga.Event{
		func(i int) saga.Event { return f.done(string(values[(i+1)%len(values)])) },
		func(i int) saga.Event { return f.done(string(values[(i+2)%len(values)])) },
		func(int) saga.Event { return f.unanswered() },
		func(int) saga.Event { return f.unanswered() },
		func(int) saga.Event { return f.done(``) },
	} {
		sameCalls()
		changes := make([]saga.Change, len(runs))
		for i, run := range runs {
			changes[i] = f.apply(run, event(i))
			runs[i] = changes[i].After
		}
		for i, err := range f.commit(changes...) {
			if err != nil {
				f.t.Fatalf("payload %.100s: %v", values[i], err)
			}
		}
	}
	sameCalls()
	if r := &runs[0]; r.State != saga.Compensating || r.CurrentStep != 0 {
		f.t.Errorf("the sagas are %s at step %d, want compensating the first", r.State, r.CurrentStep)
	}
}

// logsOf reads a saga's logs through the method that the API uses.
func (f *fixture) logsOf(run saga.Instance) []saga.StepLog {
	f.t.Helper()
	logs, err := f.Sagas.StepLogs(f.t.Context(), f.tenant.ID, run.ID, saga.Logs{})
	if err != nil {
		f.t.Fatal(err)
	}
	return logs
}

// logFields compares committed logs with logs that were read. It ignores Completes, which is an
// instruction to the store and isn't stored.
var logFields = cmp.Options{sameJSON, cmpopts.IgnoreFields(saga.StepLog{}, "Completes")}

func writtenLogs(f *fixture) {
	run := f.stored(f.owned(f.owner))[0]
	var want []saga.StepLog
	for _, e := range []saga.Event{f.done(`{"b":1,"aa":[1.50]}`), f.unanswered(), f.done(``),
		f.refused(`{"why":"ñ <no>"}`), f.done(`{"undone":1}`)} {
		c := f.apply(run, e)
		want = append(want, c.Logs...)
		run = f.moved(c)
	}
	// The order of the commits is reserve, label twice, charge, the skipped compensation of label,
	// and the compensation of reserve.
	order := []int{0, 5, 1, 2, 4, 3}
	logs := f.logsOf(run)
	if len(logs) != len(order) {
		f.t.Fatalf("%d logs, want %d", len(logs), len(order))
	}
	for i, l := range logs {
		if diff := cmp.Diff(want[order[i]], l, logFields); diff != "" {
			f.t.Errorf("log %d (-committed +read):\n%s", i, diff)
		}
	}
	// Load returns the same logs, in any order.
	byID := cmpopts.SortSlices(func(a, b saga.StepLog) bool { return a.ID.String() < b.ID.String() })
	if diff := cmp.Diff(logs, f.load(run.ID).Logs, byID); diff != "" {
		f.t.Errorf("logs (-read +loaded):\n%s", diff)
	}
}

func writtenSlow(f *fixture) {
	run := f.into(saga.Running) // the step reserve is done
	run = f.play(run, saga.Slow{StartedAt: f.now()})
	logs := f.logsOf(run)
	if len(logs) != 2 || logs[1].Status != saga.LogRunning || logs[1].CompletedAt != nil {
		f.t.Fatalf("logs of a slow call: %+v", logs)
	}
	slow := logs[1]
	c := f.apply(run, f.done(`{"slow":true}`))
	run = f.moved(c)
	want := c.Logs[0]
	want.ID, want.StartedAt = slow.ID, slow.StartedAt
	logs = f.logsOf(run)
	if len(logs) != 2 {
		f.t.Fatalf("%d logs, want 2: %+v", len(logs), logs)
	}
	if diff := cmp.Diff(want, logs[1], logFields); diff != "" {
		f.t.Errorf("the completed row (-committed +read):\n%s", diff)
	}
}

func writtenError(f *fixture) {
	run := f.play(
		f.stored(f.owned(f.owner))[0],
		f.done(`{}`),
		f.refused(`{"why":"no","b":[1.50, {"aa":1}]}`),
		f.refused(`{"undo":"no"}`),
	)
	got := f.load(run.ID).Saga.Error
	if diff := cmp.Diff(run.Error, got, sameJSON); diff != "" {
		f.t.Errorf("error (-committed +read):\n%s", diff)
	}
	if got == nil || got.Cause == nil || got.Cause.Details == nil {
		f.t.Errorf("the error %+v lacks its cause or its details", got)
	}
}
