package loop

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestALoopIsLateBeyondItsLimit(t *testing.T) {
	now := time.Unix(0, 0)
	w := NewWatchdog(func() time.Time { return now })
	w.Watch("slow", time.Hour, false)
	w.Watch("reaper", time.Minute, true)
	wants := func(when string, want ...Late) {
		t.Helper()
		if diff := cmp.Diff(want, w.Late()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	now = now.Add(time.Minute)
	wants("at its limit, without a first round")
	now = now.Add(1)
	wants("beyond it", Late{"reaper", time.Minute + 1, true})
	w.Done("reaper")
	w.Done("nobody's")
	wants("after a round")
	now = now.Add(2 * time.Hour)
	wants("much later", Late{"reaper", 2 * time.Hour, true}, Late{"slow", 2*time.Hour + time.Minute + 1, false})
}
