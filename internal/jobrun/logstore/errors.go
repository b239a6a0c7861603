package logstore

import (
	"errors"

	"github.com/skald-saga/skald/internal/fault"
)

// CodeGone is the code of the fault NotFound when an object is not there.
const CodeGone = "JOB_LOG_GONE"

var (
	// ErrCorrupt means that a stored log is not what was written.
	ErrCorrupt = errors.New("the stored log is damaged")
	// ErrRef means that a reference was not made by Put.
	ErrRef = errors.New("not a reference to a stored log")
)

func gone() error { return fault.New(fault.NotFound, CodeGone, "the log is no longer stored") }
