package saga

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/skald-saga/skald/internal/audit/eventtype"
)

// Note holds operators' remarks on a saga: its assignee and a short text. It is not part of the
// saga's row (decision 0073) and has its own version, so that notes and steps never conflict.
type Note struct {
	Version  int64 // 0 means that no note has been written yet
	Assignee string
	Text     string
}

// NoteEdit is a request to change a note. Nil fields keep their values.
type NoteEdit struct{ Assignee, Text *string }

// Edited returns the note after an edit, and the names of the members that changed, in order.
func (n Note) Edited(e NoteEdit) (after Note, changed []string) {
	after = n
	for _, m := range []struct {
		name string
		from *string
		to   *string
	}{{"assignee", e.Assignee, &after.Assignee}, {"note", e.Text, &after.Text}} {
		if m.from != nil && *m.from != *m.to {
			*m.to = *m.from
			changed = append(changed, m.name)
		}
	}
	if changed != nil {
		after.Version++
	}
	return after, changed
}

// Noted is a change to a saga's note, based on the version before Note.Version.
type Noted struct {
	Saga  Ref
	Of    time.Time // the creation time of the saga, by which lists are ordered
	Note  Note
	At    time.Time
	Event AuditEvent // stored with it
}

// Noted returns the change that makes n the note of the saga. reason is as the client stated it,
// and actor is the authenticated caller. The event does not contain the text, because the trail
// keeps events forever, but a note may be erased.
func (s *Saga) Noted(n Note, changed []string, actor, requestID, reason string, at time.Time) Noted {
	e := s.event(eventtype.NoteChanged, at)
	e.Actor, e.RequestID = actor, requestID
	w := words{Reason: reason, Changed: changed}
	if slices.Contains(changed, "assignee") {
		w.Assignee = &n.Assignee
	}
	e.say(w)
	return Noted{Saga: s.Ref(), Of: s.CreatedAt, Note: n, At: at, Event: e}
}

// Notes stores the notes on live and archived sagas. Implementations are safe for concurrent
// use; errors other than the faults named are outages.
type Notes interface {
	// Notes returns the notes of sagas of a tenant. Sagas without one are omitted.
	Notes(ctx context.Context, tenant uuid.UUID, sagas ...uuid.UUID) (map[uuid.UUID]Note, error)
	// PutNote stores a note with its event, durably on return. Fault: Conflict with CodeStale if
	// the stored version is not the one before n.Note.Version.
	PutNote(ctx context.Context, n Noted) error
}
