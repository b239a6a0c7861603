package dlq

import "github.com/skald-saga/skald/internal/fault"

// Closed returns the fault for an action that requires the content of an Unreadable letter.
func (l *Letter) Closed() *fault.Error {
	return fault.New(fault.Conflict, CodeClosed,
		"the content of the dead letter cannot be read: configure the key that sealed it, or restore the letter from "+
			"a backup; the letter can still be discarded or resolved")
}
