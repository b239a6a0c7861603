package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/skald-saga/skald/internal/strictjson"
)

// Everything that a handler reports passes through this file before it is sent. A single invalid
// text or number must not make the server refuse a call that also concerns other runs or the run's
// own lease.

// Limits of the server. Longer texts are cut.
const (
	maxProgressText = 1000 // characters
	maxReason       = 500  // characters
	maxCode         = 100  // bytes, as in the next line
	maxMessage      = 8 << 10
	maxName         = 255 // characters
	maxResult       = 1 << 20
	maxCheckpoint   = 4 << 20
	maxEmission     = 4 << 20 // total over all emissions of one run
	// maxDepth is how deep a document that is sent as an item of a list may be nested. The server's
	// own limit applies to the whole body.
	maxDepth = strictjson.DefaultMaxDepth - 8
)

// percentOf clamps a percentage to its bounds. It returns false if the value is not a number, such
// as 0/0 before the total is known.
func percentOf(p float64) (float64, bool) {
	if math.IsNaN(p) || math.IsInf(p, 0) {
		return 0, false
	}
	return min(max(p, 0), 100), true
}

// documentOf encodes v as JSON that the server can store. Whatever the server would refuse is
// returned as an error to the caller that produced it. A panic in v's MarshalJSON is such an error
// as well, because a handler's result is encoded after the handler has returned.
func documentOf(v any, most int) (doc json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			doc, err = nil, fmt.Errorf("worker: encoding as JSON panicked: %v", p)
		}
	}()
	doc, err = json.Marshal(v)
	if err != nil {
		return nil, err
	}
	doc, err = strictjson.Canonical(nil, doc, strictjson.Limits{MaxDepth: maxDepth})
	var refused *strictjson.Error
	switch {
	case errors.As(err, &refused):
		return nil, fmt.Errorf("worker: this JSON cannot be stored: %s, at %q", refused.Detail, refused.Pointer)
	case err == nil && len(doc) > most:
		return nil, fmt.Errorf("worker: this JSON has %d bytes; at most %d can be stored", len(doc), most)
	}
	return doc, err
}

// exitOf converts an exit code to the 32 bits that the server stores. Windows exit codes are
// unsigned.
func exitOf(code *int) *int32 {
	if code == nil || int64(*code) < math.MinInt32 || int64(*code) > math.MaxUint32 {
		return nil
	}
	return new(int32(int64(*code))) //nolint:gosec // the same bits
}
