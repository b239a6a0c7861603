package saga

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// damages remove the definition or the content of a run.
var damages = map[string]func(*Instance){
	CodeDefinitionUnreadable: func(r *Instance) {
		logs := []StepLog{{StepIndex: 0, StepName: r.Def.Steps[0].Name}}
		r.Def, r.undefined = standIn(&r.Saga, logs), true
		r.outputs = append(slices.Clone(r.outputs), make([]json.RawMessage, len(r.Def.Steps)-len(r.outputs))...)
	},
	CodeContentUnreadable: func(r *Instance) { r.ContentUnreadable = true },
}

// TestADamagedSagaAcceptsWhatNeedsNothingOfWhatIsDamaged checks that a damaged saga never causes a
// panic or a call, whatever its state, and that each refusal names the damaged part.
func TestADamagedSagaAcceptsWhatNeedsNothingOfWhatIsDamaged(t *testing.T) {
	free := map[string][]Verb{
		CodeDefinitionUnreadable: {Cancel, CompensateVerb, SuspendVerb, ResumeVerb, ExtendDeadline, ForceFail, Acknowledge},
		CodeContentUnreadable:    {Cancel, CompensateVerb, SuspendVerb, ResumeVerb, ExtendDeadline, Acknowledge},
	}
	for code, damage := range damages {
		accepted := map[Verb]bool{}
		for _, p := range points() {
			whole, r := p.run(), p.run()
			damage(&r)
			for _, e := range events() {
				e = p.aimed(e)
				_, before := happens(whole, e, moments(noon))
				c, err := happens(r, e, moments(noon))
				var verb Verb
				if e != nil {
					verb = e.event()
				}
				ordered := verb != ""
				f := fault.As(err)
				switch {
				case err == nil && before != nil:
					t.Fatalf("%s, %+v, %#v: accepted only because of the damage", code, p, e)
				case err == nil && c.After.State != p.state && !c.After.State.Terminal():
					t.Fatalf("%s, %+v, %#v: moves on to %s", code, p, e, c.After.State)
				case err == nil && ordered:
					accepted[verb] = true
				case err != nil && (f == nil || f.Kind != fault.Conflict || f.Allowed == nil):
					t.Fatalf("%s, %+v, %#v: %v", code, p, e, err)
				case err != nil && before == nil && f.Code != code:
					t.Fatalf("%s, %+v, %#v: refused with %v", code, p, e, err)
				}
				if ordered && slices.Contains(r.AllowedActions(), string(verb)) != (err == nil) {
					t.Fatalf("%s, %+v, %#v: allowed are %q, and it is %v", code, p, e, r.AllowedActions(), err)
				}
			}
			Steps(r, nil)
		}
		for _, v := range Verbs {
			if want := slices.Contains(free[code], v.Verb); accepted[v.Verb] != want {
				t.Errorf("%s: %s is accepted: %t", code, v.Verb, accepted[v.Verb])
			}
		}
	}
}

// damaged returns the run of each point with each kind of damage.
func damaged() (all []Instance) {
	for _, damage := range damages {
		for _, p := range points() {
			r := p.run()
			damage(&r)
			if !p.state.Terminal() || r.CompletedAt != nil {
				all = append(all, r)
			}
		}
	}
	return all
}

func TestEveryVerbHasAnEvent(t *testing.T) {
	have := map[Verb]bool{}
	for _, e := range events() {
		if e != nil {
			have[e.event()] = true
		}
	}
	for i := range Verbs {
		if !have[Verbs[i].Verb] {
			t.Errorf("no event is that of %s", Verbs[i].Verb)
		}
	}
}

func TestADefinitionFitsItsSagas(t *testing.T) {
	def := &workflow.Definition{Name: "w", Steps: []workflow.Step{{Name: "a"}, {Name: "b"}}}
	for _, tt := range []struct {
		name string
		s    Saga
		logs []StepLog
		fits bool
	}{
		{"without logs", Saga{TotalSteps: 2}, nil, true},
		{"its logs", Saga{TotalSteps: 2}, []StepLog{{StepIndex: 1, StepName: "b"}}, true},
		{"another number of steps", Saga{TotalSteps: 3}, nil, false},
		{"another name", Saga{TotalSteps: 2}, []StepLog{{StepIndex: 0, StepName: "x"}}, false},
		{"a log beyond its end", Saga{TotalSteps: 2}, []StepLog{{StepIndex: 2, StepName: "c"}}, false},
	} {
		err := Fits(&tt.s, def, tt.logs)
		if (err == nil) != tt.fits || err != nil && !errors.Is(err, workflow.ErrUnreadable) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if r, err := Restored(tt.s, def, nil, tt.logs); err != nil || r.Undefined() == tt.fits {
			t.Errorf("%s: %v, undefined: %t", tt.name, err, r.Undefined())
		}
	}
	if _, err := Restored(Saga{}, nil, errors.New("no answer"), nil); err == nil {
		t.Error("an outage is taken for damage")
	}
}

func TestAnErrorThatIsSealedIsNotWrittenOver(t *testing.T) {
	def := definition("nn")
	failed := Saga{
		TotalSteps: 2, State: Failed, NeedsAttention: true, AttentionReason: new("compensation_failed"),
		ContentUnreadable: true, Error: &Error{Code: "http_503", Message: SealedMessage}, CompletedAt: new(noon),
	}
	r := NewInstance(failed, def)
	if _, err := happens(r, Acknowledged{}, moments(noon)); !fault.IsCode(err, CodeContentUnreadable) {
		t.Errorf("acknowledged: %v", err)
	}
	r.Error.Message = "the participant answered 503"
	if _, err := happens(r, Acknowledged{}, moments(noon)); err != nil {
		t.Errorf("an error in the clear: %v", err)
	}
}

// TestARowWrittenByHandNeverPanics: the seeds let people write rows of sagas by hand. Such a row
// need not say why the saga ended, and need not have step logs.
func TestARowWrittenByHandNeverPanics(t *testing.T) {
	halted := func(r *Instance) { r.Interventions = &Interventions{Halted: true} }
	for state := Pending; state <= TimedOut; state++ {
		for step := range 5 {
			for _, change := range []func(*Instance){func(*Instance) {}, halted, func(r *Instance) { r.Uncertain = true }} {
				p := points()[0].run()
				s := p.Saga
				s.State, s.CurrentStep, s.EndCause, s.Error, s.Interventions = state, min(step, len(p.Def.Steps)), nil, nil, nil
				r, err := Restored(s, p.Def, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				change(&r)
				for _, e := range events() {
					if c, err := happens(r, e, moments(noon)); err == nil && c.After.State == Compensated && c.After.EndCause == nil {
						t.Errorf("%s at step %d: %T ends it without a cause", state, step, e)
					}
				}
			}
		}
	}
}
