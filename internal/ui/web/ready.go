package web

import (
	"net/http"
	"strings"
)

// unready determines what must still be chosen.
func (d *dialog) unready(form Form) {
	if d.Action.Unready != nil {
		d.Unready = d.Action.Unready(form)
	}
}

// Forbidden reports whether the state of the resource forbids the action, and nothing in the form
// can change that.
func (d *dialog) Forbidden() bool {
	if d.Problem == nil || d.Problem.Status != http.StatusConflict || !strings.HasSuffix(d.Problem.Code, "_CONFLICT") {
		return false
	}
	for _, f := range d.Fields {
		if f.Kind != "hidden" {
			return false
		}
	}
	return true
}
