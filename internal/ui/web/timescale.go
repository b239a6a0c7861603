package web

import (
	"slices"
	"time"
)

// Scale maps times to positions in a drawing, from 0 to width. The gap between two intervals in
// which something happened is folded if it is longer than a twentieth of the whole, so that a saga
// that waited for two hours is as readable as one that did not.
type Scale struct {
	Pieces []Piece
	width  float64
}

// Piece is a span of time that is drawn at a uniform scale.
type Piece struct {
	From, To time.Time
	X0, X1   float64
	Folded   bool
	Since    time.Duration // time from the beginning of the first piece to the beginning of this one
}

// Interval is a time during which something happened.
type Interval struct{ From, To time.Time }

const (
	foldFrom  = 0.05        // a gap of this fraction of the whole is folded,
	foldLeast = time.Second // unless it is shorter than this
	foldWidth = 28.0        // width of a folded gap, in units of the drawing
)

// NewScale lays out the intervals, which may be in any order, over width units. The gaps in
// unfolded, identified by their start times, are drawn at full length.
func NewScale(busy []Interval, width float64, unfolded ...time.Time) *Scale {
	s := &Scale{width: width}
	if len(busy) == 0 {
		return s
	}
	busy = merged(busy)
	first, last := busy[0].From, busy[len(busy)-1].To
	whole := last.Sub(first)
	var open time.Duration
	for i, b := range busy {
		if i > 0 {
			gap := Piece{From: busy[i-1].To, To: b.From}
			gap.Folded = gap.To.Sub(gap.From) >= foldLeast && float64(gap.To.Sub(gap.From)) > foldFrom*float64(whole) &&
				!slices.ContainsFunc(unfolded, gap.From.Equal)
			s.add(gap, &open)
		}
		s.add(Piece{From: b.From, To: b.To}, &open)
	}
	room := width
	for _, p := range s.Pieces {
		if p.Folded {
			room -= foldWidth
		}
	}
	x := 0.0
	for i := range s.Pieces {
		p := &s.Pieces[i]
		p.X0, p.Since = x, p.From.Sub(first)
		switch {
		case p.Folded:
			x += foldWidth
		case open > 0:
			x += room * float64(p.To.Sub(p.From)) / float64(open)
		}
		p.X1 = x
	}
	return s
}

// add appends a piece, or extends the last one.
func (s *Scale) add(p Piece, open *time.Duration) {
	if !p.Folded {
		*open += p.To.Sub(p.From)
		if n := len(s.Pieces); n > 0 && !s.Pieces[n-1].Folded {
			s.Pieces[n-1].To = p.To
			return
		}
	}
	s.Pieces = append(s.Pieces, p)
}

// At returns the position of t within the drawing.
func (s *Scale) At(t time.Time) float64 {
	for _, p := range s.Pieces {
		if t.Before(p.From) {
			return p.X0
		}
		if !t.After(p.To) && p.To.After(p.From) {
			return p.X0 + (p.X1-p.X0)*float64(t.Sub(p.From))/float64(p.To.Sub(p.From))
		}
	}
	if len(s.Pieces) == 0 {
		return 0
	}
	return s.Pieces[len(s.Pieces)-1].X1
}

// merged sorts intervals and joins adjacent or overlapping ones.
func merged(all []Interval) []Interval {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Interval) int { return a.From.Compare(b.From) })
	out := all[:1]
	for _, b := range all[1:] {
		if l := &out[len(out)-1]; !b.From.After(l.To) {
			if b.To.After(l.To) {
				l.To = b.To
			}
			continue
		}
		out = append(out, b)
	}
	return out
}
