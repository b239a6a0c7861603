package dlq

import (
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/page"
)

// GroupEdit changes the fields of a group that people set; nil members are unchanged.
type GroupEdit struct {
	State    *GroupState
	Assignee *string
	Note     *string
}

// Edited applies an edit. A group becomes REGRESSED only by its letters, never by an edit.
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

// Group is the letters with one fingerprint: one kind of error.
type Group struct {
	TenantID    uuid.UUID
	Fingerprint string
	Version     int64 // ETag; counts changes by people, not arrivals
	State       GroupState
	Topic       string // of the first letter
	ErrorType   string
	Message     string // normalised
	Received    int64  // letters ever
	Open        int64  // now; filled by Group and Groups, up to ten thousand
	OpenCapped  bool
	FirstSeen   time.Time
	LastSeen    time.Time
	Sample      uuid.UUID // the latest letter
	Assignee    string
	Note        string
	UpdatedAt   time.Time
}

// Place is where it stands in a list.
func (g *Group) Place() page.TimeKey { return page.TimeKey{At: g.LastSeen, Key: g.Fingerprint} }

// GroupState is people's assessment of a group.
type GroupState string

// States of groups. One that is RESOLVED regresses with its next letter.
const (
	GroupNew          GroupState = "NEW"
	GroupAcknowledged GroupState = "ACKNOWLEDGED"
	GroupResolved     GroupState = "RESOLVED"
	GroupRegressed    GroupState = "REGRESSED"
)
