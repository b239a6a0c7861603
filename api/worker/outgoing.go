package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/skald-saga/skald/internal/strictjson"
)

// What a handler reports goes through this file before it is sent: one odd text or number must
// not have the server refuse a call that concerns other runs, too, or the lease of its own.

// Limits of the server. Texts are cut to them.
const (
	maxProgressText = 1000 // characters
	maxReason       = 500  // characters
	maxCode         = 100  // bytes, like the next
	maxMessage      = 8 << 10
	maxName         = 255 // characters
	maxResult       = 1 << 20
	maxCheckpoint   = 4 << 20
	maxEmission     = 4 << 20 // of all that one run emits
	// maxDepth is how deep a document may nest that is sent within an item of a list. The
	// server's own limit is for the whole body.
	maxDepth = strictjson.DefaultMaxDepth - 8
)

// percentOf returns a percentage within its bounds. False: it is not a number, such as 0/0 before
// the total is known.
func percentOf(p float64) (float64, bool) {
	if math.IsNaN(p) || math.IsInf(p, 0) {
		return 0, false
	}
	return min(max(p, 0), 100), true
}

// documentOf encodes v as JSON that the server stores. What it refuses, it refuses with the
// error of the caller who made it. That its own MarshalJSON panics is such an error: the results
// of a handler are encoded after it has returned.
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

// exitOf returns an exit code as the server stores it, in 32 bits; those of Windows have no
// sign.
func exitOf(code *int) *int32 {
	if code == nil || int64(*code) < math.MinInt32 || int64(*code) > math.MaxUint32 {
		return nil
	}
	return new(int32(int64(*code))) //nolint:gosec // the same bits
}
