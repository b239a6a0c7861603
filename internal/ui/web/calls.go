package web

import (
	"cmp"
	"net/url"

	"github.com/skald-saga/skald/api/client"
)

// ActionOf returns the call of a step's action, in whichever of the two forms the definition has it;
// nil if it has none.
func ActionOf(st *client.Step) *client.Call {
	switch {
	case st.Action != nil:
		return st.Action
	case st.Job != nil:
		return &client.Call{Job: st.Job}
	}
	return nil
}

// UndoOf returns the call of a step's compensation; nil if there is nothing to call.
func UndoOf(st *client.Step) *client.Call {
	if undo, err := st.Compensation.AsCall(); err == nil && CallWords(&undo) != "" {
		return &undo
	}
	return nil
}

// GoesAhead reports whether the step after this one need not wait for its outcome to be on disk (checkpoint: false).
func GoesAhead(st *client.Step) bool { return st.Checkpoint != nil && !*st.Checkpoint }

// ToCertify is the permission to examine participants.
const ToCertify = "workflows:admin"

// MeansCertify is what an examination does.
const MeansCertify = "It executes and compensates steps there, with new saga ids, and marks every call with the header " +
	"X-Saga-Certification: 1. What it does at the participant is not undone."

// CallKind returns the transport of a call: http or job; "" for none.
func CallKind(c *client.Call) string {
	switch {
	case c == nil:
	case c.HTTP != nil:
		return "http"
	case c.Job != nil:
		return "job"
	}
	return ""
}

// CallWords describes what is called, without the scheme of the URL; "" for none.
func CallWords(c *client.Call) string {
	switch CallKind(c) {
	case "http":
		method := client.HTTPCallMethod("POST")
		if c.HTTP.Method != nil {
			method = *c.HTTP.Method
		}
		if name := deref(c.HTTP.Participant); name != "" {
			return string(method) + " participant " + name + " " + cmp.Or(deref(c.HTTP.Path), "/")
		}
		to := deref(c.HTTP.URL)
		if at, err := url.Parse(to); err == nil && at.Host != "" {
			to = at.Host + at.RequestURI()
		}
		return string(method) + " " + to
	case "job":
		return "job " + *c.Job
	}
	return ""
}
