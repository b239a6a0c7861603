package saga

// An attempt whose answer was lost leaves a doubt (Saga.Uncertain): the step, or its compensation,
// may have been applied. This file contains the rules about doubts (decision 0101).

// doubts records whether a call that was not done leaves a doubt. Only a successful answer ends a
// doubt. A refusal does not, because it may come from a gateway that never saw the attempt whose
// answer was lost (decision 0101).
func (d *decision) doubts(o Outcome) {
	d.s.Uncertain = d.s.Uncertain || o.Verdict == Unknown || o.InDoubt
}

// givenUp returns the error of the current step or compensation, which has given up. A refusal
// alone would mean that nothing was applied.
func (d *decision) givenUp(o Outcome, what string) *Error {
	text := what + o.Message
	if d.s.Uncertain && o.Verdict != Unknown {
		text += earlierDoubt
	}
	return d.outcomeError(o, text)
}

const earlierDoubt = "; an earlier attempt may have been applied"

// turnBackHere starts compensating at a current step that is not done. If that step may have been
// applied, it is compensated first (trap X10), but after any later steps that a lost node may have
// called.
func (d *decision) turnBackHere() {
	if d.s.Uncertain {
		d.turnBack(max(d.s.CurrentStep, d.reach))
	} else {
		d.turnBack(d.s.CurrentStep - 1)
	}
}
