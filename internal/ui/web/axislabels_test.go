package web

import (
	"math/rand/v2"
	"testing"
	"unicode/utf8"
)

// TestLabelsOfAnAxisKeepApart checks that, whatever the positions and texts, labels do not overlap
// or extend beyond the axis.
func TestLabelsOfAnAxisKeepApart(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	texts := []string{"⋯", "15:04:05 UTC", "⋯ 6 d 23 h ⋯", "+1 h 30 min", "deadline", "round 12"}
	for range 2000 {
		l := AxisLabels{PerChar: 0.5 + r.Float64()*2}
		var placed [][2]float64
		for range 12 {
			text, x := texts[r.IntN(len(texts))], r.Float64()*100
			at, free := l.Place(x, text, r.IntN(2) == 0)
			if !free {
				continue
			}
			wide := l.PerChar * float64(utf8.RuneCountInString(text))
			from := at.X - map[string]float64{"start": 0, "middle": wide / 2, "end": wide}[at.Anchor]
			for _, p := range placed {
				if from < p[1] && p[0] < from+wide {
					t.Fatalf("%q from %.1f to %.1f lies over one from %.1f to %.1f", text, from, from+wide, p[0], p[1])
				}
			}
			if from < -0.01 && x > wide || from+wide > 100.01 {
				t.Fatalf("%q at %.1f is from %.1f to %.1f", text, x, from, from+wide)
			}
			placed = append(placed, [2]float64{from, from + wide})
		}
	}
	var l AxisLabels
	l.PerChar = 1
	if _, free := l.Place(50, "taken", true); !free {
		t.Error("an empty axis has no room")
	}
	if l.Leave(50); len(l.taken) != 0 {
		t.Error("a label that was left keeps its room")
	}
}
