package jobrun_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/retry"
)

// For every way to create a run, this test checks the definition to which it is pinned, its
// initiator, and whose rights it has, including after a retry.
func TestEveryRunIsPinnedAndKnowsWhoIsBehindIt(t *testing.T) {
	t.Parallel()
	d := jobrun.Definition{ID: uuid.New(), Name: "d", SpecVersion: 7, UpdatedBy: "key:changer", Spec: jobrun.Spec{
		CommandName: jobrun.ShellCommand, DefaultArgs: json.RawMessage(`{"script":"true"}`),
		Retry: retry.Policy{MaxAttempts: 3},
	}}
	event := &jobrun.PublishedEvent{NewEvent: jobrun.NewEvent{ID: uuid.New(), By: "key:publisher"}}
	backfill := &jobrun.Backfill{Head: bulk.Head{ID: uuid.New(), Actor: "key:filler"}}
	given := json.RawMessage(`{"script":"id","argv":["/bin/sh"]}`)
	s := jobrun.NewSettings(0, nil)
	asked := func(tr jobrun.Trigger, as string) jobrun.Run {
		return jobrun.New(&d, jobrun.Request{Trigger: tr, Key: "k", Args: given, By: "key:x", As: as}, s, moment())
	}
	ended := asked(jobrun.ByHand, "auditor")
	ended.InitiatedBy = "key:first"
	again := jobrun.RerunRequest(&ended)
	again.By, again.As = "key:second", "operator"
	for name, tt := range map[string]struct {
		run    jobrun.Run
		by, as string
	}{
		"by hand":                         {asked(jobrun.ByHand, "admin"), "key:x", "admin"},
		"by hand, of an operator":         {asked(jobrun.ByHand, "operator"), "key:x", "operator"},
		"by hand, of nobody knows whom":   {asked(jobrun.ByHand, ""), "key:x", "operator"},
		"once more":                       {jobrun.New(&d, again, s, moment()), "key:second", "operator"},
		"of a dead letter":                {asked(jobrun.ByLetter, ""), "key:x", "operator"},
		"of a saga":                       {asked(jobrun.BySaga, ""), "key:x", "operator"},
		"of an event":                     {jobrun.New(&d, jobrun.EventRequest(event, &d, given), s, moment()), "key:publisher", "operator"},
		"of a backfill":                   {backfill.Run(&d, noon, s, moment()), "key:filler", "admin"},
		"of a slot":                       {jobrun.New(&d, jobrun.Request{Trigger: jobrun.ByTime, By: d.UpdatedBy}, s, moment()), "key:changer", "admin"},
		"of a retry that nobody knows of": {jobrun.Run{Trigger: jobrun.ByRetry, DefinitionID: d.ID, SpecVersion: 7, CommandName: "shell", InitiatedBy: "?"}, "?", "operator"},
	} {
		r := tt.run
		want := r
		want.DefinitionID, want.SpecVersion, want.CommandName, want.InitiatedBy = d.ID, 7, jobrun.ShellCommand, tt.by
		if diff := cmp.Diff(want, r); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if r.Rights() != tt.as {
			t.Errorf("%s: by the rights of %s, want %s", name, r.Rights(), tt.as)
		}
		if r.ID == uuid.Nil {
			continue
		}
		r.State, r.Attempt = jobrun.Running, 1
		e := change(r, &d.Spec, failed(true))
		if e.Retry == nil || e.Retry.InitiatedBy != tt.by || e.Retry.Rights() != tt.as || e.Retry.SpecVersion != 7 {
			t.Errorf("%s, retried: %+v", name, e.Retry)
		}
	}
	if string(d.Spec.DefaultArgs) != `{"script":"true"}` {
		t.Errorf("a run has changed its definition: %s", d.Spec.DefaultArgs)
	}
}

func TestArgumentsOfProgramsAreNotTheirDefaultOnes(t *testing.T) {
	t.Parallel()
	program := jobrun.Spec{CommandName: jobrun.ShellCommand, DefaultArgs: json.RawMessage(`{"script":"true"}`)}
	other := jobrun.Spec{CommandName: "report", DefaultArgs: json.RawMessage(`{"n":1}`)}
	given := json.RawMessage(`{"n":2}`)
	if program.Data(nil) != nil || string(program.Data(given)) != `{"n":2}` || string(other.Data(nil)) != `{"n":1}` ||
		string(other.Data(given)) != `{"n":2}` {
		t.Errorf("%s %s %s %s", program.Data(nil), program.Data(given), other.Data(nil), other.Data(given))
	}
	// The schema applies to the data, so the program need not conform to it.
	program.ArgsSchema = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["day"],"properties":{"day":{"type":"string"}}}`)
	program.Type = jobrun.OnDemand
	if err := jobrun.CheckNew("job", new(program.Complete())); err != nil {
		t.Error(err)
	}
}

func TestWhatTouchesMoreThanAnOperatorMay(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{
		``: true, `{}`: true, `null`: true, `{"max_messages":0}`: true, `{"max_messages":1001}`: true,
		`{"max_messages":"1"}`: true, `[]`: true, `{"max_messages":-1}`: true,
		`{"max_messages":1e30}`: true, `{"max_messages":1}`: false, `{"max_messages":1000,"topic":"t"}`: false,
	} {
		if got := jobrun.Beyond(jobrun.SystemRedrive, json.RawMessage(args), 1000); got != want {
			t.Errorf("%s: %t", args, got)
		}
	}
	if jobrun.Beyond(jobrun.SystemArchive, nil, 1000) {
		t.Error("archiving has no bound")
	}
}
