package web

import (
	"cmp"
	"net/url"

	"github.com/skald-saga/skald/api/client"
)

// ActionOf returns the call of a step's action, whichever of the two forms the definition uses, or
// nil if there is none.
func ActionOf(st *client.Step) *client.Call {
	switch {
	case st.Action != nil:
		return st.Action
	case st.Job != nil:
		return &client.Call{Job: st.Job}
	}
	return nil
}

// UndoOf returns the call of a step's compensation, or nil if there is none.
func UndoOf(st *client.Step) *client.Call {
	if undo, err := st.Compensation.AsCall(); err == nil && CallWords(&undo) != "" {
		return &undo
	}
	return nil
}

// GoesAhead reports whether the next step need not wait for this step's outcome to be on disk
// (checkpoint: false).
func GoesAhead(st *client.Step) bool { return st.Checkpoint != nil && !*st.Checkpoint }

// ToCertify is the permission to certify participants.
const ToCertify = "workflows:admin"

// MeansCertify describes what a certification does.
const MeansCertify = "The certification executes and compensates steps at the participant, with new saga IDs, and marks every call " +
	"with the header X-Saga-Certification: 1. Its effects at the participant are not undone."

// CallKind returns the transport of a call: http or job, or "" if there is no call.
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

// CallWords describes what is called, without the scheme of the URL, or "" if there is no call.
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
