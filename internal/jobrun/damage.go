package jobrun

import "github.com/skald-saga/skald/internal/fault"

// Damaged returns the fault for a request that needs the spec of an Unreadable definition.
func (d *Definition) Damaged() *fault.Error {
	return fault.New(fault.Conflict, CodeUnreadable,
		"the stored job definition %q is damaged: restore its row from a backup, or delete it and create "+
			"it again; until then, it creates no runs", d.Name)
}

// Closed returns the fault for a request that needs the content of a run whose encrypted content
// cannot be decrypted.
func Closed() *fault.Error {
	return fault.New(fault.Conflict, CodeClosed,
		"the run's encrypted content cannot be decrypted: configure the key that sealed it, or restore the run from a backup")
}
