package dlq

import (
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/page"
)

// GroupEdit changes the fields of a group that people set. Nil members change nothing.
type GroupEdit struct {
	State    *GroupState
	Assignee *string
	Note     *string
}

// Edited applies an edit. A group becomes REGRESSED only when a letter arrives, never through an
// edit. Fault: Invalid.
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
			w.Add(pointer, "too_long", "must be UTF-8 text without NUL, of at most %d characters", limit)
		}
	}
	text("/assignee", e.Assignee, MaxWord, &g.Assignee)
	text("/note", e.Note, MaxNote, &g.Note)
	g.Version++
	g.UpdatedAt = now
	return g, w.fault()
}

// Group is the set of letters with one fingerprint, that is, one kind of error.
type Group struct {
	TenantID    uuid.UUID
	Fingerprint string
	Version     int64 // ETag; counts changes by people, but not arrivals
	State       GroupState
	Topic       string // topic of the first letter
	ErrorType   string
	Message     string // normalised
	Received    int64  // number of letters ever received
	Open        int64  // current number; filled by Group and Groups, up to ten thousand
	OpenCapped  bool
	FirstSeen   time.Time
	LastSeen    time.Time
	Sample      uuid.UUID // the latest letter
	Assignee    string
	Note        string
	UpdatedAt   time.Time
}

// Place is the group's position in a list.
func (g *Group) Place() page.TimeKey { return page.TimeKey{At: g.LastSeen, Key: g.Fingerprint} }

// GroupState is people's assessment of a group.
type GroupState string

// States of groups. A RESOLVED group becomes REGRESSED when its next letter arrives.
const (
	GroupNew          GroupState = "NEW"
	GroupAcknowledged GroupState = "ACKNOWLEDGED"
	GroupResolved     GroupState = "RESOLVED"
	GroupRegressed    GroupState = "REGRESSED"
)
