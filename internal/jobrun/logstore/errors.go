package logstore

import (
	"errors"

	"github.com/skald-saga/skald/internal/fault"
)

// CodeGone is the code of the fault NotFound for an object that does not exist.
const CodeGone = "JOB_LOG_GONE"

var (
	// ErrCorrupt means that a stored log differs from what was written.
	ErrCorrupt = errors.New("the stored log is damaged")
	// ErrRef means that a reference was not made by Put.
	ErrRef = errors.New("not a valid reference to a stored log")
)

func gone() error { return fault.New(fault.NotFound, CodeGone, "the log is no longer stored") }
