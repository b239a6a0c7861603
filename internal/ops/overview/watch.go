package overview

import (
	"time"

	"github.com/google/uuid"
)

// MostWatched is the maximum number of resources that one stream follows.
const MostWatched = 100

// WatchKind is the kind of resource that a stream follows.
type WatchKind string

// Kinds of resources that can be followed.
const (
	WatchSaga    WatchKind = "saga"
	WatchRun     WatchKind = "run"
	WatchLetter  WatchKind = "letter"
	WatchRedrive WatchKind = "redrive"
	WatchGroup   WatchKind = "group"
)

// Watched lists the resources that a stream follows.
type Watched struct {
	Sagas, Runs, Letters, Redrives []uuid.UUID
	Groups                         []string
}

// Len returns how many resources are followed.
func (w *Watched) Len() int {
	return len(w.Sagas) + len(w.Runs) + len(w.Letters) + len(w.Redrives) + len(w.Groups)
}

// State is the state of a resource.
type State struct {
	Kind    WatchKind
	ID      string
	Version int64
	State   string // "": there is no such resource
	Updated time.Time
}

// Gone reports whether there is no such resource.
func (s *State) Gone() bool { return s.State == "" }

// Sighting is the set of states that a stream has sent to its client.
type Sighting struct {
	watched *Watched
	told    map[string]State
}

// Watch returns the sighting of a stream that has sent nothing yet.
func Watch(w *Watched) *Sighting { return &Sighting{w, map[string]State{}} }

// Changed returns the states that differ from those sent, in the order of the followed resources,
// and records them as sent.
func (s *Sighting) Changed(found []State) []State {
	now := make(map[string]State, len(found))
	for _, f := range found {
		now[string(f.Kind)+f.ID] = f
	}
	var changed []State
	look := func(kind WatchKind, id string) {
		key := string(kind) + id
		is, ok := now[key]
		if !ok {
			is = State{Kind: kind, ID: id}
		}
		was, told := s.told[key]
		if told && was.Version == is.Version && was.State == is.State && was.Updated.Equal(is.Updated) {
			return
		}
		s.told[key] = is
		changed = append(changed, is)
	}
	each := func(kind WatchKind, ids []uuid.UUID) {
		for _, id := range ids {
			look(kind, id.String())
		}
	}
	each(WatchSaga, s.watched.Sagas)
	each(WatchRun, s.watched.Runs)
	each(WatchLetter, s.watched.Letters)
	each(WatchRedrive, s.watched.Redrives)
	for _, g := range s.watched.Groups {
		look(WatchGroup, g)
	}
	return changed
}
