package dlq

import "github.com/skald-saga/skald/internal/fault"

// Closed is the fault of what needs the content of a letter that is Unreadable.
func (l *Letter) Closed() *fault.Error {
	return fault.New(fault.Conflict, CodeClosed,
		"content of the dead letter cannot be read: configure the key that sealed it, or restore the letter from a "+
			"backup; it can be discarded or resolved")
}
