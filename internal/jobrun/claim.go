package jobrun

import (
	"bytes"
	"cmp"
	"slices"
)

func (w *WorkerProcess) has(labels []string) bool {
	return !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(w.Labels, l) })
}

func (w *WorkerProcess) runs(command string) bool {
	return len(w.Commands) == 0 || slices.Contains(w.Commands, command)
}

// CompareTurns compares runs by the order in which they are claimed: by priority, then by slot.
func CompareTurns(a, b *Run) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.ScheduledFor.Compare(b.ScheduledFor),
		bytes.Compare(a.ID[:], b.ID[:]))
}
