package saga

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/strictjson"
)

// startedAhead is like started, but with steps that do not wait for their commit.
func startedAhead(pattern string) Instance {
	r := started(pattern)
	for i := range r.Def.Steps {
		r.Def.Steps[i].Checkpoint = new(false)
	}
	return r
}

// lost returns the run that a claim produces when the node of r is dead.
func lost(r Instance) Instance {
	r.Attempt++
	r.Uncertain = true
	r.LeaseEpoch++
	r.Version++
	return r
}

// TestHeldChangesAreOne checks that changes which are written together have the same result as
// changes written one by one, except that they are one version.
func TestHeldChangesAreOne(t *testing.T) {
	for _, story := range []string{"done done done", "done done refused", "done done timeout", "done slow"} {
		r := startedAhead("uuu")
		one, whole := r, Change{}
		for i, word := range strings.Fields(story) {
			m := moments(noon.Add(time.Duration(i) * time.Second))
			c, err := happens(one, happenings[word], m)
			if err != nil {
				t.Fatal(err)
			}
			one = c.After
			if i == 0 {
				whole = c
				continue
			}
			logs, audit := len(whole.Logs)+len(c.Logs), len(whole.Audit)+len(c.Audit)
			before := whole
			whole = whole.Then(c)
			if len(whole.Logs) != logs || len(whole.Audit) != audit || whole.StartsCompensation != c.StartsCompensation {
				t.Fatalf("%q: %d logs and %d events, want %d and %d", story, len(whole.Logs), len(whole.Audit), logs, audit)
			}
			if !reflect.DeepEqual(whole.Logs[:len(before.Logs)], before.Logs) {
				t.Errorf("%q: the logs are in another order", story)
			}
		}
		if whole.Before != (Precondition{r.Version, r.LeaseEpoch}) || whole.After.Version != r.Version+1 {
			t.Errorf("%q: version %d on %+v", story, whole.After.Version, whole.Before)
		}
		one.Version = whole.After.Version
		if diff := cmp.Diff(one, whole.After, cmp.AllowUnexported(Instance{})); diff != "" {
			t.Errorf("%q (-one by one +together):\n%s", story, diff)
		}
	}
}

func TestWhichChangesMayBeHeld(t *testing.T) {
	for _, tt := range []struct {
		name  string
		story string
		run   func(*Instance)
		want  bool
	}{
		{"a step was done", "done", nil, true},
		{"the next one too", "done done", nil, true},
		{"after a retry", "timeout done", nil, true},
		{"after the loss of a node", "done", func(r *Instance) { *r = lost(*r) }, true},
		{"the last one", "done done done", nil, false},
		{"it waits for the disk", "done", func(r *Instance) { r.Def.Steps[0].Checkpoint = nil }, false},
		{"a retry", "timeout", nil, false},
		{"a refusal", "done refused", nil, false},
		{"what was recorded as running", "slow done", nil, false},
		{"under a cancel", "cancel done", nil, false},
		{"while it is suspended", "suspend done", nil, false},
		{"a compensation", "done done refused done", nil, false},
		{"a flag", "done cancel", nil, false},
	} {
		r := startedAhead("uuu")
		if tt.run != nil {
			tt.run(&r)
		}
		_, _, c := tell(t, r, tt.story)
		if got := c.Deferrable(); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestHowFarALostNodeMayBe checks which steps a lost node may have called, although none of this is
// stored. The word "lost" in a story means that the node is lost.
func TestHowFarALostNodeMayBe(t *testing.T) {
	for _, tt := range []struct {
		name, story string
		checked     int // the step that waits for its commit; -1 means none
		step        int
		attempt     int
		doubted     string
	}{
		{"its node lives", "", -1, 0, 1, ""},
		{"a reply was lost", "timeout", -1, 0, 2, "0"},
		{"its node was lost", "lost", -1, 0, 2, "0 1 2 3"},
		{"up to the first that waits for the disk", "lost", 2, 0, 2, "0 1 2"},
		{"the first itself waits", "lost", 0, 0, 2, "0"},
		{"one of them was done since", "lost done", -1, 1, 2, "1 2 3"},
		{"all of them were", "lost done done", 2, 2, 2, "2"},
		{"and the one after", "lost done done done", 2, 3, 1, ""},
		{"two nodes were lost", "lost lost done", -1, 1, 3, "1 2 3"},
		{"the second in the middle", "lost done lost done", -1, 2, 3, "2 3"},
		{"a reply was lost since", "lost timeout", -1, 0, 3, "0 1 2 3"},
		{"which came in the end", "lost timeout done", -1, 1, 2, "1 2 3"},
		{"it could not be reached since", "lost unreached", -1, 0, 3, "0 1 2 3"},
		{"a retry by a person counts failures", "timeout retry", -1, 0, 2, "0 1 2 3"},
		{"it was forced to fail", "done fail", -1, 1, 1, "1 2 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := startedAhead("uuuu")
			if tt.checked >= 0 {
				r.Def.Steps[tt.checked].Checkpoint = nil
			}
			var logs []StepLog
			for i, word := range strings.Fields(tt.story) {
				if word == "lost" {
					r = lost(r)
					continue
				}
				c, err := happens(r, happenings[word], moments(noon.Add(time.Duration(i+1)*time.Minute)))
				if err != nil {
					t.Fatal(err)
				}
				r, logs = c.After, append(logs, c.Logs...)
			}
			var doubted []string
			for _, v := range Steps(r, logs) {
				if v.InDoubt {
					doubted = append(doubted, v.Name[1:])
				}
			}
			if got := strings.Join(doubted, " "); r.CurrentStep != tt.step || r.Attempt != tt.attempt || got != tt.doubted {
				t.Errorf("step %d, attempt %d, in doubt %q; want %d, %d, %q", r.CurrentStep, r.Attempt, got, tt.step,
					tt.attempt, tt.doubted)
			}
		})
	}
}

// TestWhatWasPassedTurnsNothing checks that a flag waits while the call after a passed step is in
// flight: the outcome of that call comes first.
func TestWhatWasPassedTurnsNothing(t *testing.T) {
	passed := Passed{happenings["done"].(Answered).Outcome}
	for _, tt := range []struct {
		flag  string
		cause Cause
	}{{"cancel", CauseCancelled}, {"deadline", CauseDeadline}, {"compensate", CauseOperator}} {
		r, _, _ := tell(t, startedAhead("uuu"), tt.flag)
		for k := range 2 {
			c, err := Apply(r, passed, moments(noon))
			if err != nil {
				t.Fatal(err)
			}
			if r = c.After; r.State != Running || r.CurrentStep != k+1 || r.EndCause == nil || *r.EndCause != tt.cause {
				t.Errorf("%s: %s at step %d because of %v", tt.flag, r.State, r.CurrentStep, r.EndCause)
			}
		}
		if got := r.Next(noon); got != Turn {
			t.Errorf("%s: without a call in flight it does %d", tt.flag, got)
		}
		if r, _, _ = tell(t, r, "done"); r.State != Compensating || r.CurrentStep != 2 {
			t.Errorf("%s: %s at step %d after the answer", tt.flag, r.State, r.CurrentStep)
		}
	}
	for name, r := range map[string]Instance{
		"the last step":           startedAhead("u"),
		"a step that waits":       started("uu"),
		"a saga that compensates": func() Instance { r, _, _ := tell(t, startedAhead("uu"), "done refused"); return r }(),
		"one that has ended":      func() Instance { r, _, _ := tell(t, startedAhead("u"), "done"); return r }(),
	} {
		if _, err := Apply(r, passed, moments(noon)); err == nil {
			t.Errorf("%s was passed", name)
		}
	}
}

// TestRequestsOfRenumberedOutcomesAreKept: an operator retries a saga while its driver holds
// outcomes, which are then stored as later attempts. The requests of the following steps can still
// be rebuilt, and are the same.
func TestRequestsOfRenumberedOutcomesAreKept(t *testing.T) {
	r, _, _ := tell(t, startedAhead("uuuu"), "timeout")
	r = lost(r)
	m := moments(noon.Add(time.Hour))
	apply := func(r Instance, e Event) Change {
		t.Helper()
		c, err := Apply(r, e, m)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var sent []Outcome
	var attempts []int
	ahead := r
	for range 3 {
		call := ahead.Call(Defaults{})
		sent = append(sent, Outcome{Verdict: Done, Output: []byte(`{"n":1}`), Request: call.Body, Parts: call.Parts,
			StartedAt: m.Now, EndedAt: m.Now})
		attempts = append(attempts, ahead.Attempt)
		ahead = apply(ahead, Answered{sent[len(sent)-1]}).After
	}
	stored := apply(r, RetryRequested{By: "op"}).After
	var logs []StepLog
	for i, e := range []Event{Passed{sent[0]}, Passed{sent[1]}, Answered{sent[2]}} {
		c := apply(stored, e)
		stored, logs = c.After, append(logs, c.Logs...)
		if i > 0 && logs[i].Attempt == attempts[i] {
			t.Fatalf("attempt %d of step %d has kept its number", attempts[i], i)
		}
		if logs[i].Parts != nil {
			logs[i].Request = nil // as a store keeps it
		}
	}
	MakeRequests(&stored.Saga, logs)
	for i := range logs {
		if want, err := strictjson.Canonical(nil, sent[i].Request, strictjson.Stored); err != nil ||
			string(logs[i].Request) != string(want) && string(logs[i].Request) != string(sent[i].Request) {
			t.Errorf("step %d: the request is\n%s, sent was\n%s", i, logs[i].Request, sent[i].Request)
		}
	}
}
