package workflow

import "fmt"

// A step with checkpoint: false does not wait for the disk: the next step may be called before the
// step's outcome is written (decision 0157).

// Ahead reports whether the step after step i may be called before the outcome of step i is on
// disk. Some steps are called only once everything before them is on disk, whatever the earlier
// steps declare: a pivot, because nothing can be undone after it; a step with a condition, because
// the condition is evaluated only once; and a job, because its run begins in the commit.
func (d *Definition) Ahead(i int) bool {
	if i < 0 || i+1 >= len(d.Steps) {
		return false
	}
	s, next := &d.Steps[i], &d.Steps[i+1]
	return s.Checkpoint != nil && !*s.Checkpoint && s.Action.Job == "" && !s.Pivot &&
		next.Action.Job == "" && !next.Pivot && next.When == ""
}

// checkpoint reads m["checkpoint"] of the step s. nil means true.
func (r *reader) checkpoint(m map[string]any, at string, s *Step) *bool {
	if m["checkpoint"] == nil || r.flag(m, at, "checkpoint") {
		return nil
	}
	switch at += "/checkpoint"; {
	case s.Action.Job != "":
		r.fail(at, CodeInvalid, "false is not allowed for a job: the end of its run is always written immediately")
	case s.Pivot:
		r.fail(at, CodeInvalid, "false is not allowed for the pivot: whether the saga can still be compensated must be "+
			"on disk before anything else is called")
	}
	return new(false)
}

// written returns what is wrong with a compensation of step i that reads the output of the step
// called name: the compensation may have to be called after a crash that has lost this output.
func (d *Definition) written(i int, name string) error {
	for k := i - 1; d.Ahead(k); k-- {
		if d.Steps[k].Name == name {
			return fmt.Errorf("after a crash, step %q may have to be compensated although the output of step %q was not on disk: "+
				"give step %q checkpoint: true, or have the participant of %q find what to undo by its idempotency key",
				d.Steps[i].Name, name, name, d.Steps[i].Name)
		}
	}
	return nil
}
