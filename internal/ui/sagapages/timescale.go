package sagapages

import (
	"slices"
	"time"
)

// scale maps times to positions in a drawing, from 0 to width. What lies between two
// intervals in which something happened is folded when it is longer than a twentieth of
// the whole: a saga that waited for two hours is then as readable as one that did not.
type scale struct {
	pieces []piece
	width  float64
}

// piece is a span of time that is drawn evenly.
type piece struct {
	from, to   time.Time
	x0, x1     float64
	folded     bool
	sincefirst time.Duration
}

// interval is a time during which something happened.
type interval struct{ from, to time.Time }

const (
	foldFrom  = 0.05 // a gap of this fraction of the whole is folded
	foldWidth = 28.0 // of a folded gap, in units of the drawing
)

// newScale lays out the intervals, in any order, over width units. The gaps that are in
// unfolded, by the time they begin, are drawn in full.
func newScale(busy []interval, width float64, unfolded ...time.Time) *scale {
	s := &scale{width: width}
	if len(busy) == 0 {
		return s
	}
	busy = merged(busy)
	first, last := busy[0].from, busy[len(busy)-1].to
	whole := last.Sub(first)
	var open time.Duration
	for i, b := range busy {
		if i > 0 {
			gap := piece{from: busy[i-1].to, to: b.from}
			gap.folded = float64(gap.to.Sub(gap.from)) > foldFrom*float64(whole) &&
				!slices.ContainsFunc(unfolded, gap.from.Equal)
			s.add(gap, &open)
		}
		s.add(piece{from: b.from, to: b.to}, &open)
	}
	room := width
	for _, p := range s.pieces {
		if p.folded {
			room -= foldWidth
		}
	}
	x := 0.0
	for i := range s.pieces {
		p := &s.pieces[i]
		p.x0, p.sincefirst = x, p.from.Sub(first)
		switch {
		case p.folded:
			x += foldWidth
		case open > 0:
			x += room * float64(p.to.Sub(p.from)) / float64(open)
		}
		p.x1 = x
	}
	return s
}

// add appends a piece, or makes the last one longer.
func (s *scale) add(p piece, open *time.Duration) {
	if !p.folded {
		*open += p.to.Sub(p.from)
		if n := len(s.pieces); n > 0 && !s.pieces[n-1].folded {
			s.pieces[n-1].to = p.to
			return
		}
	}
	s.pieces = append(s.pieces, p)
}

// at returns the position of t, within the drawing.
func (s *scale) at(t time.Time) float64 {
	for _, p := range s.pieces {
		if t.Before(p.from) {
			return p.x0
		}
		if !t.After(p.to) && p.to.After(p.from) {
			return p.x0 + (p.x1-p.x0)*float64(t.Sub(p.from))/float64(p.to.Sub(p.from))
		}
	}
	if len(s.pieces) == 0 {
		return 0
	}
	return s.pieces[len(s.pieces)-1].x1
}

// merged sorts intervals and joins those that touch.
func merged(all []interval) []interval {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b interval) int { return a.from.Compare(b.from) })
	out := all[:1]
	for _, b := range all[1:] {
		if l := &out[len(out)-1]; !b.from.After(l.to) {
			if b.to.After(l.to) {
				l.to = b.to
			}
			continue
		}
		out = append(out, b)
	}
	return out
}
