package participant

import (
	"net/http"
	"testing"
)

// A failure is recorded in a second transaction. If another process has compensated the step
// between the two, the failed run was older than the compensation, so a copy of it is too late.
func TestAFailureThatACompensationHasOvertaken(t *testing.T) {
	call := func(action Action, run int) *Call {
		return &Call{Key: string(action) + string(rune('0'+run)), Action: action, Fence: 1, run: run, digest: "d"}
	}
	for name, found := range map[string]step{
		"nothing was done":   {Fence: 1, Seen: 1}, // the first run was refused
		"one was done":       {Fence: 1, Seen: 1, Done: 1},
		"closed, not undone": {Fence: 1, Seen: 1, Done: 1, Blocked: 1},
	} {
		for overtaken, want := range map[bool]verdict{true: refuse, false: perform} {
			s, second := found, call(Execute, 2)
			if overtaken {
				s.keep(call(Compensate, 1), kept{Status: http.StatusOK})
			}
			s.failed(second, found)
			if got, _ := s.judge(second); got != want {
				t.Errorf("%s, overtaken %t: %d; want %d", name, overtaken, got, want)
			}
		}
	}
}
