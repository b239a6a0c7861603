package saga

// checkViews compares the result of Steps with the witness's records.
func (w *world) checkViews(r *Instance) {
	t := w.t
	views := Steps(*r, w.logs)
	if len(views) != len(w.def.Steps) {
		t.Fatalf("%d steps are shown, there are %d", len(views), len(w.def.Steps))
	}
	for i, v := range views {
		state, undo := w.expectedView(r, i)
		if state < 0 {
			continue
		}
		if v.Index != i || v.Name != w.def.Steps[i].Name ||
			v.State != state && !(state == StepStateFailed && v.State == StepStatePending) {
			t.Fatalf("%s at step %d: step %d is shown %s, want %s\n%+v", r.State, r.CurrentStep, i, v.State, state, w.logs)
		}
		if shown := v.Compensation; (shown == nil) != (undo < 0) || shown != nil && shown.State != undo {
			t.Fatalf(
				"%s at step %d: the undo of step %d is shown %+v, want %d\n%+v",
				r.State,
				r.CurrentStep,
				i,
				shown,
				undo,
				w.logs,
			)
		}
		if (string(v.Output) != "") != (w.done[i] && string(r.outputs[i]) != "null") {
			t.Fatalf("step %d is shown with output %s", i, v.Output)
		}
	}
}

// expectedView returns the state of step i and of its compensation, or -1 if it has none. A step
// that was never done is failed if it was called, and pending otherwise.
func (w *world) expectedView(r *Instance, i int) (StepState, CompensationState) {
	hasUndo := !w.def.Steps[i].Compensation.None()
	passed := StepStateCompleted
	switch {
	case w.skipped[i]:
		passed = StepStateSkipped
	case !w.done[i]:
		passed = StepStateFailed
	}
	switch {
	case w.loose[i] && !w.mustUndo(i):
		return -1, -1
	case w.forcedEnd && r.State == Completed:
		return -1, -1 // as far as it got
	case r.Halted() && i < r.CurrentStep:
		return passed, -1
	case r.Halted() && i == r.CurrentStep:
		return StepStateFailed, -1
	case r.Halted():
		return StepStatePending, -1
	case !r.State.Forward() && r.State != Completed && r.restartAt() > i:
		return passed, -1
	case w.undoByHand[i] && !r.State.Forward() && r.State != Completed &&
		(r.State != Failed && r.State != Compensating || i > r.CurrentStep):
		switch u := w.row(i, Compensate, LogSkipped); {
		case u != nil && u.Outcome != nil:
			return passed, UndoStateSkipped
		case u != nil: // undone outside Skald
			return StepStateCompensated, UndoStateSkipped
		}
		return StepStateCompensated, UndoStateCompleted
	case !r.State.Forward() && r.State != Completed && w.skipped[i] && !w.doubt[i]:
		return StepStateSkipped, -1
	case r.State == Completed || r.State.Forward() && i < r.CurrentStep:
		return passed, -1
	case r.Stopped() && i == r.CurrentStep:
		return StepStateFailed, -1
	case r.State.Forward() && i == r.CurrentStep && r.Attempt > 0 && r.State != StepCompleted:
		return StepStateRunning, -1
	case r.State.Forward():
		return StepStatePending, -1
	case !w.mustUndo(i):
		return StepStateFailed, -1
	case r.State == Compensating && i == r.CurrentStep:
		return StepStateCompensating, UndoStateRunning
	case r.State == Failed && i == r.CurrentStep:
		return StepStateCompensating, UndoStateFailed
	case (r.State == Compensating || r.State == Failed) && i < r.CurrentStep:
		return passed, UndoStatePending
	case hasUndo:
		return StepStateCompensated, UndoStateCompleted
	}
	return StepStateCompensated, UndoStateSkipped
}
