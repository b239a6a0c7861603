package saga_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/retry"
	. "github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/explain"
)

func TestTheExplanationOfAnEnd(t *testing.T) {
	for _, tt := range []struct{ name, story, want string }{
		{"completed", "done done", "It ended as completed."},
		{"compensated", "done refused done", `It ended as compensated. Step "s1": sold out.`},
		{"cancelled", "done cancel refused done", "It ended as cancelled. Cancelled by ann: too late."},
		{"a compensation gave up", "done refused refused", `The compensation of step "s0" gave up: sold out. ` +
			`Step "s0" and those before it are not compensated.`},
		{"a step was refused after a doubt", "done timeout refused done done", `It ended as compensated. Step "s1": sold out; an earlier attempt may have been applied.`},
		{"a compensation was refused after a doubt", "done refused timeout refused", `The compensation of step "s0" gave up: sold out; ` +
			`an earlier attempt may have been applied. Step "s0" and those before it are not compensated.`},
		{"the compensation's deadline passed", "done refused 500 deadline turn", "The compensation did not end before its deadline. " +
			`Step "s0" and those before it are not compensated.`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, _, _ := Tell(t, Started("uu"), tt.story)
			x := explain.Saga(&r, nil, true, Noon)
			got, _, _ := strings.Cut(x.Summary, " It waits for its dead letter ")
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestAStepInDoubtIsExplainedAndShown(t *testing.T) {
	for _, tt := range []struct {
		story   string
		doubts  string // of the steps s0 and s1; ? means in doubt
		summary string
		explain bool
	}{
		{"", "--", "", false},
		{"unreached", "--", "", false},
		{"timeout", "?-", `An earlier attempt may have been applied: unless a later one succeeds, step "s0" is compensated as well.`, true},
		{"timeout unreached", "?-", `step "s0" is compensated as well.`, true},
		{"timeout done", "--", "", false},
		{"done timeout refused", "-?", "", false}, // its compensation is not in doubt
		{"done timeout refused timeout", "-?", "An earlier attempt may have been applied.", true},
		{"done timeout refused done", "-?", "", false},
		{"done timeout refused done done", "-?", "an earlier attempt may have been applied", false},
		{"done refused timeout refused", "--", "an earlier attempt may have been applied", true},
		{"done refused done", "--", "", false},
		{"timeout fail", "?-", "", false},
	} {
		var logs []StepLog
		r := Started("uu")
		for i, word := range strings.Fields(tt.story) {
			c, err := Happens(r, Happenings[word], Moments(Noon.Add(time.Duration(i)*time.Minute)))
			if err != nil {
				t.Fatalf("%q: %v", tt.story, err)
			}
			r, logs = c.After, append(logs, c.Logs...)
		}
		doubts := ""
		for _, v := range Steps(r, logs) {
			doubts += map[bool]string{true: "?", false: "-"}[v.InDoubt]
		}
		x := explain.Saga(&r, logs, true, Noon)
		if doubts != tt.doubts || !strings.Contains(x.Summary, tt.summary) ||
			tt.summary == "" && strings.Contains(x.Summary, "may have been applied") ||
			tt.explain != (x.Step != nil && x.Step.InDoubt) {
			t.Errorf("%q: steps %s, %+v, %q; want %s, %v, %q", tt.story, doubts, x.Step, x.Summary, tt.doubts, tt.explain, tt.summary)
		}
	}
}

func TestADryRunUndoesTheStepInDoubt(t *testing.T) {
	r, _, _ := Tell(t, Started("uu"), "done timeout")
	c, err := Happens(r, Happenings["cancel"], Moments(Noon.Add(time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	waits := r
	waits.NextRunAt = new(Noon.Add(2 * time.Hour)) // nothing is in flight
	f := explain.Following(&c, &waits, Moments(Noon.Add(time.Hour)), Defaults{})
	calls := ""
	for _, p := range f.Calls {
		calls += string(p.Action[0]) + p.Step + " "
	}
	if calls != "Cs1 Cs0 " || f.EndState != Cancelled || f.InFlight {
		t.Errorf("%s to %s, in flight %v; want both undone, the one in doubt first", calls, f.EndState, f.InFlight)
	}
}

// TestWhatWaitsBehindASuspensionSaysSo: a decision about a suspended saga is accepted, but has no
// visible effect until the saga is resumed, so the explanation must mention it.
func TestWhatWaitsBehindASuspensionSaysSo(t *testing.T) {
	for _, tt := range []struct{ story, again, want string }{
		{"timeout suspend cancel", "cancel", "compensation was requested (cancelled); it is suspended, so this takes effect once it is resumed"},
		{"timeout suspend compensate", "compensate", "compensation was requested (operator); it is suspended, so this takes effect once it is resumed"},
		{"timeout deadline suspend", "deadline", "its deadline has passed; it is suspended, so this takes effect once it is resumed"},
		{"timeout cancel suspend", "compensate", "compensation was requested (cancelled); it is suspended, so this takes effect once it is resumed"},
		{"done refused 500 deadline suspend", "deadline", "the deadline of its compensation has passed; it is suspended, so this takes effect once it is resumed"},
		{"timeout cancel", "cancel", "compensation was requested (cancelled); this takes effect once no call is in flight"},
	} {
		r, _, _ := Tell(t, Started("uu"), tt.story)
		x := explain.Saga(&r, nil, true, Noon.Add(time.Hour))
		if !strings.Contains(x.Summary, strings.ToUpper(tt.want[:1])+tt.want[1:]+".") {
			t.Errorf("%q is explained by %q", tt.story, x.Summary)
		}
		if _, err := Happens(r, Happenings[tt.again], Moments(Noon)); err == nil ||
			!strings.Contains(err.Error(), "the saga is "+r.State.String()+"; "+tt.want) {
			t.Errorf("%q, then %s: %v", tt.story, tt.again, err)
		}
	}
	r, _, _ := Tell(t, Started("uu"), "timeout suspend")
	if x := explain.Saga(&r, nil, true, Noon); strings.Contains(x.Summary, "takes effect") {
		t.Errorf("nothing was decided, yet %q", x.Summary)
	}
}

func TestAnErasedSagaSaysWhyNothingCanBeDone(t *testing.T) {
	for _, story := range []string{"done done", "refused", "done refused refused", "timeout fail"} {
		r, _, _ := Tell(t, Started("uu"), story)
		r.Payload = ErasedContent
		for _, word := range []string{"retry", "resume", "cancel", "suspend"} {
			_, err := Happens(r, Happenings[word], Moments(Noon))
			if err == nil || !strings.Contains(err.Error(), "its content was erased") {
				t.Errorf("%q, then %s: %v", story, word, err)
			}
		}
		x := explain.Saga(&r, nil, true, Noon)
		if x.WaitsFor != explain.WaitsNothing || len(x.Allowed) > 0 ||
			!strings.Contains(x.Summary, "Its content was erased") {
			t.Errorf("%q: %+v", story, x)
		}
	}
}

// TestWhatAStoppedSagaSays checks the explanation, the error and its chain, and the text shown in
// the trail.
func TestWhatAStoppedSagaSays(t *testing.T) {
	r := WithOutput(Places("us")[0], 0, []byte(`1`))
	r.CurrentStep, r.Failures, r.Attempt, r.LeaseOwner, r.NextRunAt = 1, 0, 1, new(int64(1)), nil
	c, err := Apply(r, Answered{Outcome{Verdict: Refused, Class: retry.Refused, Code: "http_402", Message: "no money",
		StartedAt: Noon, EndedAt: Noon}}, Moments(Noon))
	if err != nil || !c.After.Stopped() || c.After.SuspendedAt == nil || *c.After.AttentionReason != ReasonStepFailed {
		t.Fatalf("%v, %+v", err, c.After.Saga)
	}
	var types []eventtype.Type
	for _, e := range c.Audit {
		types = append(types, e.Type)
	}
	want := []eventtype.Type{eventtype.StepFailed, eventtype.Suspended, eventtype.AttentionRaised}
	if !slices.Equal(types, want) {
		t.Errorf("events %v, want %v", types, want)
	}
	stopped := c.Released(Noon).After
	x := explain.Saga(&stopped, c.Logs, true, Noon)
	if x.WaitsFor != explain.WaitsOperator || !strings.Contains(x.Summary, `Step "s1": no money. It is suspended at the failed step "s1"`) ||
		!strings.Contains(x.Summary, "retry, complete or skip the step, or compensate") {
		t.Errorf("%s: %s", x.WaitsFor, x.Summary)
	}
	if v := Steps(stopped, c.Logs)[1]; v.State != StepStateFailed || v.Attempts != 1 {
		t.Errorf("step %+v", v)
	}
	c, err = Apply(stopped, CompensateRequested{By: "op"}, Moments(Noon))
	if err != nil || c.After.SuspendedAt != nil || c.After.NeedsAttention || c.After.Error.Cause.Code != "http_402" {
		t.Errorf("%v, %+v, %+v", err, c.After.Saga, c.After.Error)
	}
	c, err = Apply(stopped, RetryRequested{By: "op"}, Moments(Noon))
	if err != nil || c.After.SuspendedAt != nil || c.After.Error != nil || c.After.Failures != 0 || c.After.Attempt != 2 {
		t.Errorf("%v, %+v", err, c.After.Saga)
	}
	changed := explain.Changes(&c, &stopped)
	for _, what := range []string{"suspended_at", "attention_reason", "failures"} {
		if !strings.Contains(fmt.Sprint(changed), what) {
			t.Errorf("the dry run of a retry does not say that %s changes: %+v", what, changed)
		}
	}
}

func TestADamagedSagaIsExplained(t *testing.T) {
	all := Damaged()
	if len(all) < 100 {
		t.Fatalf("only %d sagas", len(all))
	}
	for i := range all {
		if x := explain.Saga(&all[i], nil, true, Noon); x.Summary == "" {
			t.Fatalf("%+v: %+v", all[i].Saga, x)
		}
	}
}

func TestHowFarItsNodeMayBeIsExplained(t *testing.T) {
	ahead := `Its node may be ahead of the recorded state, at most at step "s2" (checkpoint: false).`
	doubted := `The steps after it, up to step "s2", may also have been applied, because their outcomes may not have been on disk`
	for _, tt := range []struct {
		name string
		run  Instance
		want string
	}{
		{"by default it cannot be", Started("uuu"), ""},
		{"it may be", Ahead("uuu"), ahead},
		{"it was lost", Lost(Ahead("uuu")), doubted},
		{"lost, by default", Lost(Started("uuu")), ""},
	} {
		x := explain.Saga(&tt.run, nil, true, Noon)
		said := strings.Contains(x.Summary, "checkpoint: false")
		if said != (tt.want != "") || !strings.Contains(x.Summary, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, x.Summary, tt.want)
		}
	}
	r, _, _ := Tell(t, Ahead("uuu"), "done done")
	if x := explain.Saga(&r, nil, true, Noon); strings.Contains(x.Summary, "checkpoint") {
		t.Errorf("at the last step: %q", x.Summary)
	}
}
