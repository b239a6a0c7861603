package workflow

import (
	"cmp"
	"fmt"
	"time"
)

// LaterWait returns how long a saga waits for a report on the action of step i, or on its
// compensation. 0 means that its answers never announce a report.
func (d *Definition) LaterWait(i int, undo bool) time.Duration {
	a := d.Steps[i].Answer
	if undo {
		a = d.Steps[i].Compensation.Answer
	}
	if a == nil || a.Later == "" {
		return 0
	}
	return time.Duration(cmp.Or(a.LaterMS, DefaultLaterMS)) * time.Millisecond
}

// AnswersLater returns the pointer of the first rule for deferred answers, in the steps as they
// were written, or "" if there is none.
func (d *Definition) AnswersLater() string {
	for i := range d.Steps {
		switch {
		case d.LaterWait(i, false) > 0:
			return fmt.Sprintf("/steps/%d/answer/later", d.Position(i))
		case d.LaterWait(i, true) > 0:
			return fmt.Sprintf("/steps/%d/compensation/answer/later", d.Position(i))
		}
	}
	return ""
}
