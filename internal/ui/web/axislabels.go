package web

import "unicode/utf8"

// AxisLabel is a text next to an axis. Anchor states which part of the text is at X: start, middle
// or end.
type AxisLabel struct {
	X      float64 // in percent of the axis
	Text   string
	Anchor string
}

// AxisLabels places texts in a line along an axis. They do not overlap or extend beyond the ends of
// the axis, however close together the times are.
type AxisLabels struct {
	PerChar float64 // width of a character, in percent of the axis at its narrowest
	taken   [][2]float64
}

// Place returns a label for a position, or false if there is no room. The position is the middle of
// the label if it is centred, and its beginning otherwise. At the ends of the axis, the label is
// moved so that it stays within the axis.
func (l *AxisLabels) Place(x float64, text string, centred bool) (AxisLabel, bool) {
	wide := l.PerChar * float64(utf8.RuneCountInString(text))
	label := AxisLabel{X: x, Text: text, Anchor: "start"}
	from := x
	if centred {
		label.Anchor, from = "middle", x-wide/2
	}
	switch {
	case from < 0:
		label.X, label.Anchor, from = 0, "start", 0
	case from+wide > 100 && centred:
		label.X, label.Anchor, from = 100, "end", 100-wide
	case from+wide > 100:
		label.Anchor, from = "end", x-wide
	}
	for _, t := range l.taken {
		if from < t[1]+l.PerChar && t[0] < from+wide+l.PerChar {
			return label, false
		}
	}
	l.taken = append(l.taken, [2]float64{from, from + wide})
	return label, true
}

// Leave frees the room taken by a label.
func (l *AxisLabels) Leave(x float64) {
	for i, t := range l.taken {
		if t[0] <= x && x <= t[1] {
			l.taken = append(l.taken[:i:i], l.taken[i+1:]...)
			return
		}
	}
}
