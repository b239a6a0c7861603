package jobrun_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

// calls lists every call of a worker, with the event that Apply gets when the call is carried out.
// Nil means that a statement executes the call.
var calls = map[jobrun.Call]jobrun.Event{
	jobrun.CallStart: nil, jobrun.CallProgress: nil, jobrun.CallLogs: nil, jobrun.CallConfirm: nil,
	jobrun.CallComplete: succeeded, jobrun.CallFail: failed(true), jobrun.CallRelease: jobrun.Released{},
	jobrun.CallCancel: jobrun.CancelAcknowledged{},
}

// judged is the expected result of Judge for a call by the holder of the fence, written down
// independently.
func judged(p point, c jobrun.Call) (replayed, again bool, code string) {
	ends := map[jobrun.Call][]jobrun.State{
		jobrun.CallComplete: {jobrun.Succeeded}, jobrun.CallFail: {jobrun.Failed, jobrun.TimedOut}, jobrun.CallCancel: {jobrun.Canceled},
	}[c]
	switch p.state {
	case jobrun.Running:
		switch {
		case c == jobrun.CallStart, c == jobrun.CallConfirm && !p.doubted:
			return true, false, ""
		case c == jobrun.CallCancel && !p.asked:
			return false, false, jobrun.CodeConflict
		}
		return false, true, ""
	case jobrun.Assigned:
		switch c {
		case jobrun.CallStart, jobrun.CallRelease:
			return false, true, ""
		case jobrun.CallCancel:
			return false, false, jobrun.CodeConflict // it cannot have been requested
		}
		return false, false, jobrun.CodeNotStarted
	case jobrun.Orphaned:
		if c == jobrun.CallRelease {
			return true, false, ""
		}
		return false, false, jobrun.CodeFenceLost
	}
	switch {
	case slices.Contains(ends, p.state):
		return true, false, ""
	case p.state == jobrun.Canceled && (c == jobrun.CallComplete || c == jobrun.CallFail):
		return false, false, jobrun.CodeCancelWins
	case c == jobrun.CallLogs:
		return false, true, ""
	}
	return false, false, jobrun.CodeConflict
}

func TestEveryCallOnEveryRunIsCarriedOutRepeatedOrRefused(t *testing.T) {
	for _, p := range points() {
		r := p.run()
		if r.Attempt == 0 {
			continue
		}
		for c, in := range calls {
			replayed, again, err := jobrun.Judge(&r, r.Fence(), c)
			wantReplayed, wantAgain, code := judged(p, c)
			if replayed != wantReplayed || again != wantAgain || (code == "") != (err == nil) || code != "" &&
				!fault.IsCode(err, code) {
				t.Fatalf("%+v, %s: %v, %v, %v; want %v, %v, %q", p, c, replayed, again, err, wantReplayed, wantAgain, code)
			}
			// The rules apply every call that Judge lets through.
			if in == nil || !again {
				continue
			}
			if change, err := decide(r, p.spec(), in); err != nil || !change.Changes() {
				t.Fatalf("%+v, %s: it is let through, and then %v", p, c, err)
			}
		}
	}
}

func TestWhoHasAnotherFenceIsRefusedWhateverTheState(t *testing.T) {
	for _, p := range points() {
		r := p.run()
		if r.Attempt == 0 {
			continue
		}
		for name, tt := range map[string]struct {
			change func(*jobrun.Fence)
			code   string
		}{
			"worker":  {func(f *jobrun.Fence) { f.WorkerID = uuid.UUID{99} }, jobrun.CodeFenceLost},
			"attempt": {func(f *jobrun.Fence) { f.Attempt-- }, jobrun.CodeFenceLost},
			"token":   {func(f *jobrun.Fence) { f.LeaseToken = uuid.UUID{99} }, jobrun.CodeFenceLost},
			"epoch":   {func(f *jobrun.Fence) { f.LeaderEpoch++ }, jobrun.CodeStaleEpoch},
		} {
			f := r.Fence()
			tt.change(&f)
			for c := range calls {
				if replayed, again, err := jobrun.Judge(&r, f, c); replayed || again || !fault.IsCode(err, tt.code) {
					t.Fatalf("%+v, %s with another %s: %v, %v, %v", p, c, name, replayed, again, err)
				}
			}
		}
	}
}
