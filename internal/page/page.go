// Package page describes one page of a list: the request to a store and its result. A place (of any
// type C) is the position of an item in the order of its list; a page begins after a place.
package page

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Request selects a page, either by offset or by the place after which it begins.
type Request[C any] struct {
	Limit  int // at least 1
	Offset int // number of items before the page
	After  *C  // place of the last item of the previous page; Offset must then be 0
	Total  bool
	// TotalCap is the number at which counting may stop; 0 means no limit. Counting a few million
	// items takes longer than clients are willing to wait for a list.
	TotalCap int64
	// Snapshot excludes items that did not exist when it was taken; "" means no restriction.
	Snapshot Snapshot
}

// Snapshot identifies the data that was visible to a store at a point in time. Its content is
// opaque to everything except stores.
type Snapshot string

// Start returns the place after which the page begins, or the zero place for a page that is
// selected by offset.
func (r Request[C]) Start() (place C) {
	if r.After != nil {
		place = *r.After
	}
	return place
}

// ByTime selects a page of a list ordered by a time and an ID, as most lists are.
type ByTime = Request[TimeID]

// Of is one page.
type Of[T any] struct {
	Items []T
	More  bool  // there is a next page
	Total int64 // number of items on all pages; only if Request.Total
	// TotalCapped means that counting stopped at Request.TotalCap, or earlier because it took too
	// long. There are at least Total items.
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

// CapTotal limits the total to most; 0 means no limit.
func (p *Of[T]) CapTotal(most int64) {
	if most > 0 && p.Total > most {
		p.Total, p.TotalCapped = most, true
	}
}

// TimeID is a place in an order by time and ID, at the full precision of both (trap X5).
type TimeID struct {
	At time.Time
	ID uuid.UUID
}

// Compare returns a negative number if a comes before b, oldest first.
func (a TimeID) Compare(b TimeID) int {
	return cmp.Or(a.At.Compare(b.At), bytes.Compare(a.ID[:], b.ID[:]))
}

// KeyTimeID is a place in an order by text (bytewise), then time and ID. If there is no text, the
// order is by time and ID alone.
type KeyTimeID struct {
	Key string
	TimeID
}

// Compare returns a negative number if a comes before b in ascending order.
func (a KeyTimeID) Compare(b KeyTimeID) int {
	return cmp.Or(strings.Compare(a.Key, b.Key), a.TimeID.Compare(b.TimeID))
}

// SplitKey splits the place of a page into its time and ID, which stay in the request, and its key.
func SplitKey(r Request[KeyTimeID]) (at ByTime, key string) {
	at = ByTime{Limit: r.Limit, Offset: r.Offset, Total: r.Total, TotalCap: r.TotalCap, Snapshot: r.Snapshot}
	if r.After != nil {
		at.After, key = &r.After.TimeID, r.After.Key
	}
	return at, key
}

// TimeKey is a place in an order by time and text.
type TimeKey struct {
	At  time.Time
	Key string
}
