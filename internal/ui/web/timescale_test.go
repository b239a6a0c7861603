package web

import (
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func seconds(from, to float64) Interval {
	at := func(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }
	return Interval{at(from), at(to)}
}

func TestLongWaitsAreFolded(t *testing.T) {
	s := NewScale([]Interval{seconds(0, 1), seconds(3600, 3601)}, 1000)
	if len(s.Pieces) != 3 || !s.Pieces[1].Folded {
		t.Fatalf("%+v", s.Pieces)
	}
	half := (1000 - foldWidth) / 2
	for _, c := range []struct {
		second float64
		want   float64
	}{
		{0, 0}, {0.5, half / 2}, {1, half}, {1800, half + foldWidth*1799/3599}, {3600, half + foldWidth}, {3601, 1000},
		{4000, 1000},
	} {
		if got := s.At(seconds(c.second, 0).From); got < c.want-0.01 || got > c.want+0.01 {
			t.Errorf("second %g is at %g, want %g", c.second, got, c.want)
		}
	}
}

func TestAWaitThatIsUnfoldedIsDrawnInFull(t *testing.T) {
	busy := []Interval{seconds(0, 1), seconds(9, 10)}
	if s := NewScale(busy, 1000, busy[0].To); len(s.Pieces) != 1 || s.At(seconds(5, 0).From) != 500 {
		t.Errorf("%+v", s.Pieces)
	}
}

func TestShortWaitsAndOverlapsAreOnePiece(t *testing.T) {
	s := NewScale([]Interval{seconds(5, 10), seconds(0, 4.9), seconds(1, 2), seconds(9, 12)}, 600)
	if len(s.Pieces) != 1 || s.At(seconds(6, 0).From) != 300 {
		t.Errorf("%+v", s.Pieces)
	}
}

func TestNothingHappenedYet(t *testing.T) {
	if s := NewScale(nil, 600); s.At(noon) != 0 {
		t.Error("a position without a scale")
	}
	if s := NewScale([]Interval{seconds(1, 1)}, 600); s.At(noon.Add(time.Second)) != 0 {
		t.Error("an instant has a length")
	}
}
