package jobrun_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
)

func TestOfAKeyOneRunAtATimeAsItsPolicySays(t *testing.T) {
	t.Parallel()
	type c = jobrun.Candidate
	running := c{State: jobrun.Running, Admitted: true}
	admitted := c{State: jobrun.Pending, Admitted: true}
	waits := func(p jobrun.Policy) c { return c{State: jobrun.Pending, Policy: p, Due: true} }
	retry := func(p jobrun.Policy) c {
		return c{State: jobrun.Pending, Policy: p, Due: true, Trigger: jobrun.ByRetry}
	}
	limited := waits(jobrun.Queue)
	limited.QueueLimit = 2
	asked := running
	asked.CancelRequested = true
	held, later := retry(jobrun.Queue), c{State: jobrun.Pending, Policy: jobrun.Forbid,
		Trigger: jobrun.ByRetry, HoldsKey: true}
	held.HoldsKey = true
	const admit, skip, cancel, ask, wait = jobrun.StepAdmit, jobrun.StepSkip, jobrun.StepCancel,
		jobrun.StepAskCancel, jobrun.Step("")
	for _, tt := range []struct {
		name string
		all  []c
		want []jobrun.Step
	}{
		{"the first begins", []c{waits(jobrun.Queue), waits(jobrun.Queue)}, []jobrun.Step{admit, wait}},
		{"queue waits", []c{running, waits(jobrun.Queue)}, []jobrun.Step{wait, wait}},
		{"queue waits for what may be claimed", []c{admitted, waits(jobrun.Queue)}, []jobrun.Step{wait, wait}},
		{"so many may wait", []c{running, limited, limited, limited}, []jobrun.Step{wait, wait, wait, skip}},
		{"one that begins does not wait", []c{limited, limited, limited, limited}, []jobrun.Step{admit, wait, wait, skip}},
		{"forbid is skipped", []c{running, waits(jobrun.Forbid)}, []jobrun.Step{wait, skip}},
		{"of two at once one", []c{waits(jobrun.Forbid), waits(jobrun.Forbid)}, []jobrun.Step{admit, skip}},
		{"a lost one keeps its key", []c{{State: jobrun.Orphaned}, waits(jobrun.Forbid)}, []jobrun.Step{wait, skip}},
		{"a retry waits under forbid", []c{running, retry(jobrun.Forbid)}, []jobrun.Step{wait, wait}},
		{"replace asks what runs to stop", []c{running, waits(jobrun.Replace)}, []jobrun.Step{ask, wait}},
		{"and waits for it", []c{asked, waits(jobrun.Replace)}, []jobrun.Step{wait, wait}},
		{"replace ends what does not run", []c{admitted, waits(jobrun.Replace)}, []jobrun.Step{cancel, wait}},
		{"or is lost", []c{{State: jobrun.Orphaned}, waits(jobrun.Replace)}, []jobrun.Step{cancel, wait}},
		{"or was not started", []c{{State: jobrun.Assigned}, waits(jobrun.Replace)}, []jobrun.Step{cancel, wait}},
		{"the newest replaces", []c{running, waits(jobrun.Replace), waits(jobrun.Replace)}, []jobrun.Step{ask, skip, wait}},
		{"also when the key is free", []c{waits(jobrun.Replace), waits(jobrun.Replace)}, []jobrun.Step{skip, admit}},
		{"a retry replaces nothing", []c{running, retry(jobrun.Replace)}, []jobrun.Step{wait, skip}},
		{"a retry begins when the key is free", []c{retry(jobrun.Replace)}, []jobrun.Step{admit}},
		{"policies of one key mix", []c{running, waits(jobrun.Queue), waits(jobrun.Forbid), waits(jobrun.Replace)}, []jobrun.Step{ask, wait, skip, wait}},
		{"what was just admitted is not replaced at once", []c{waits(jobrun.Queue), waits(jobrun.Replace)}, []jobrun.Step{admit, wait}},
		{"a retry that holds its key goes first", []c{waits(jobrun.Queue), held}, []jobrun.Step{wait, admit}},
		{"and others wait for it before it is due", []c{waits(jobrun.Queue), later}, []jobrun.Step{wait, wait}},
		{"or are skipped", []c{waits(jobrun.Forbid), later}, []jobrun.Step{skip, wait}},
		{"or replace it", []c{waits(jobrun.Replace), later}, []jobrun.Step{wait, cancel}},
		{"nothing", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			at := map[uuid.UUID]int{}
			for i := range tt.all {
				r := &tt.all[i]
				r.ID, r.AvailableAt = uuid.New(), noon.Add(time.Duration(i)*time.Minute)
				at[r.ID] = i
			}
			var got []jobrun.Step
			if tt.all != nil {
				got = make([]jobrun.Step, len(tt.all))
			}
			for _, a := range jobrun.AdmitKey(tt.all) {
				if got[at[a.ID]] != "" {
					t.Errorf("two decisions about %d", at[a.ID])
				}
				got[at[a.ID]] = a.Step
				if (a.Reason == "") != (a.Step == admit) {
					t.Errorf("%s: reason %q", a.Step, a.Reason)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
