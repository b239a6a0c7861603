// Package page describes one page of a list: the request to a store, and its result. A place,
// of any type C, is the position of an item in the order of its list; a page begins after a
// place.
package page

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Request selects a page, either by its offset or after a place.
type Request[C any] struct {
	Limit  int // at least 1
	Offset int // items before the page
	After  *C  // the place of the last item of the previous page; then Offset is 0
	Total  bool
	// TotalCap is the number at which counting may stop; 0: no limit. Counting a few million
	// items takes longer than clients wait for a list.
	TotalCap int64
	// Snapshot excludes items that did not exist when it was taken; "": no restriction.
	Snapshot Snapshot
}

// Snapshot identifies what was visible to a store at a moment. Its content is opaque to all but
// stores.
type Snapshot string

// Start returns the place after which the page begins; the zero place for a page that is
// selected by its offset.
func (r Request[C]) Start() (place C) {
	if r.After != nil {
		place = *r.After
	}
	return place
}

// ByTime selects a page of a list ordered by a time and an id, as most lists are.
type ByTime = Request[TimeID]

// Of is one page.
type Of[T any] struct {
	Items []T
	More  bool  // there is a next page
	Total int64 // of all pages; only if Request.Total
	// TotalCapped means that counting stopped at Request.TotalCap or, because it took too long,
	// earlier. There are at least Total items.
	TotalCapped bool
}

// Cut returns the page that r selects from the items read for it: one item beyond the page
// shows that there is a next page.
func Cut[T, C any](r Request[C], read []T) Of[T] {
	if len(read) > r.Limit {
		return Of[T]{Items: read[:r.Limit], More: true}
	}
	return Of[T]{Items: read}
}

// In returns the page that r selects from a complete, ordered list. follows reports whether an
// item comes after a place.
func In[T, C any](r Request[C], all []T, follows func(*T, C) bool) Of[T] {
	var total int64
	if r.Total {
		total = int64(len(all))
	}
	if r.After != nil {
		all = slices.DeleteFunc(all, func(item T) bool { return !follows(&item, *r.After) })
	}
	found := Cut(r, all[min(r.Offset, len(all)):])
	found.Total = total
	return found
}

// CapTotal limits the total to most; 0: no limit.
func (p *Of[T]) CapTotal(most int64) {
	if most > 0 && p.Total > most {
		p.Total, p.TotalCapped = most, true
	}
}

// TimeID is a place in the order of a time and an id, at the full precision of both
// (trap X5).
type TimeID struct {
	At time.Time
	ID uuid.UUID
}

// Compare is negative when a comes before b, oldest first.
func (a TimeID) Compare(b TimeID) int {
	return cmp.Or(a.At.Compare(b.At), bytes.Compare(a.ID[:], b.ID[:]))
}

// KeyTimeID is a place in the order of a text, by its bytes, and then of a time and an id; where
// there is no text, of these two.
type KeyTimeID struct {
	Key string
	TimeID
}

// Compare is negative when a comes before b in ascending order.
func (a KeyTimeID) Compare(b KeyTimeID) int {
	return cmp.Or(strings.Compare(a.Key, b.Key), a.TimeID.Compare(b.TimeID))
}

// SplitKey returns a page after a place with a key as the page after its time and id, and the key.
func SplitKey(r Request[KeyTimeID]) (at ByTime, key string) {
	at = ByTime{Limit: r.Limit, Offset: r.Offset, Total: r.Total, TotalCap: r.TotalCap, Snapshot: r.Snapshot}
	if r.After != nil {
		at.After, key = &r.After.TimeID, r.After.Key
	}
	return at, key
}

// TimeKey is a place in the order of a time and a text.
type TimeKey struct {
	At  time.Time
	Key string
}
