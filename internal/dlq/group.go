package dlq

import (
	"time"
	"unicode/utf8"
)

// GroupEdit changes what people have made of a group; nil members stay as they are.
type GroupEdit struct {
	State    *GroupState
	Assignee *string
	Note     *string
}

// Edited applies an edit. A group becomes REGRESSED only by its letters, never by hand.
// Fault: Invalid.
func (g Group) Edited(e GroupEdit, now time.Time) (Group, error) {
	var w mistakes
	if e.State != nil {
		switch *e.State {
		case GroupNew, GroupAcknowledged, GroupResolved:
			g.State = *e.State
		default:
			w.Add("/state", "enum", "must be %s, %s or %s", GroupNew, GroupAcknowledged, GroupResolved)
		}
	}
	text := func(pointer string, in *string, limit int, into *string) {
		if in == nil {
			return
		}
		if *into = *in; utf8.RuneCountInString(*in) > limit || !storable(*in) {
			w.Add(pointer, "too_long", "must have at most %d characters, in UTF-8 without NUL", limit)
		}
	}
	text("/assignee", e.Assignee, MaxWord, &g.Assignee)
	text("/note", e.Note, MaxNote, &g.Note)
	g.Version++
	g.UpdatedAt = now
	return g, w.fault()
}
