package sagapages

import (
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func seconds(from, to float64) interval {
	at := func(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }
	return interval{at(from), at(to)}
}

func TestLongWaitsAreFolded(t *testing.T) {
	s := newScale([]interval{seconds(0, 1), seconds(3600, 3601)}, 1000)
	if len(s.pieces) != 3 || !s.pieces[1].folded {
		t.Fatalf("%+v", s.pieces)
	}
	half := (1000 - foldWidth) / 2
	for _, c := range []struct {
		second float64
		want   float64
	}{
		{0, 0}, {0.5, half / 2}, {1, half}, {1800, half + foldWidth*1799/3599}, {3600, half + foldWidth}, {3601, 1000},
		{4000, 1000},
	} {
		if got := s.at(seconds(c.second, 0).from); got < c.want-0.01 || got > c.want+0.01 {
			t.Errorf("second %g is at %g, want %g", c.second, got, c.want)
		}
	}
}

func TestAWaitThatIsUnfoldedIsDrawnInFull(t *testing.T) {
	busy := []interval{seconds(0, 1), seconds(9, 10)}
	if s := newScale(busy, 1000, busy[0].to); len(s.pieces) != 1 || s.at(seconds(5, 0).from) != 500 {
		t.Errorf("%+v", s.pieces)
	}
}

func TestShortWaitsAndOverlapsAreOnePiece(t *testing.T) {
	s := newScale([]interval{seconds(5, 10), seconds(0, 4.9), seconds(1, 2), seconds(9, 12)}, 600)
	if len(s.pieces) != 1 || s.at(seconds(6, 0).from) != 300 {
		t.Errorf("%+v", s.pieces)
	}
}

func TestNothingHappenedYet(t *testing.T) {
	if s := newScale(nil, 600); s.at(noon) != 0 {
		t.Error("a position without a scale")
	}
	if s := newScale([]interval{seconds(1, 1)}, 600); s.at(noon.Add(time.Second)) != 0 {
		t.Error("an instant has a length")
	}
}
