package participant

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// Later is the output of a function that defers its answer: `return participant.Later, nil`. What
// the function wrote in tx, such as a record of the work, is committed with it. The worker
// completes the call with Finish; until then, repeats of the call get the same answer without
// calling the function.
//
// The definition of the step must say which answer means later (answer.later, as `status == 202`);
// Skald then sends Call.Callback. Without a callback, returning Later is an error, because Skald
// would take the answer for a success.
var Later any = answersLater{}

type answersLater struct{}

// Errors of Finish and Heartbeat. In both cases the work must not take effect: roll back.
var (
	// ErrCompensated means that the step was compensated, or replaced by an operator, while the
	// work was in progress.
	ErrCompensated = errors.New("participant: the call was compensated or replaced while the work went on")
	// ErrNotPending means that the key was never answered with Later, or already has its final
	// answer.
	ErrNotPending = errors.New("participant: no call with this key is waiting for its answer")
)

// later is the answer to a call whose function returned Later.
func later(c *Call) (kept, error) {
	at, err := url.Parse(c.Callback)
	if err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" {
		return kept{}, fmt.Errorf("answered later, but X-Saga-Callback is %q: the step's definition has no answer.later",
			c.Callback)
	}
	return kept{Status: http.StatusAccepted, Body: `{"later":true}`, Later: &pending{
		Callback: c.Callback, Attempt: c.Attempt, Action: c.Action, Run: c.run,
	}}, nil
}
