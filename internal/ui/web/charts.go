package web

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
)

// Spark draws a few numbers as bars, small enough for a line of text.
type Spark struct {
	Width, Height int
	Bars          template.HTML
	Words         string // text version for screen readers
	Tone          string // empty: the default
}

const (
	sparkStep    = 5
	sparkHeight  = 18
	minuteHeight = 36
)

// NewSpark draws values, or returns nil unless at least one of them is greater than zero. title
// describes one value, words all of them.
func NewSpark(values []int64, words string, title func(i int) string) *Spark {
	s := newSpark(values, sparkHeight, title)
	if s != nil {
		said := make([]string, len(values))
		for i, n := range values {
			said[i] = Count(n)
		}
		s.Words = words + ": " + strings.Join(said, ", ")
	}
	return s
}

func newSpark(values []int64, height int, title func(i int) string) *Spark {
	var most int64
	for _, n := range values {
		most = max(most, n)
	}
	if most == 0 {
		return nil
	}
	var bars Drawing
	for i, n := range values {
		h := 1 // zero is drawn as a line
		if n > 0 {
			h = max(2, int(n*int64(height)/most))
		}
		bars.Write(`<rect x="`, strconv.Itoa(i*sparkStep), `" y="`, strconv.Itoa(height-h), `" width="4" height="`,
			strconv.Itoa(h), `"><title>`, html.EscapeString(Count(n)+" "+title(i)), `</title></rect>`)
	}
	return &Spark{Width: len(values) * sparkStep, Height: height, Bars: bars.HTML()}
}

// Minutely draws one number for each minute, starting at from. Its text states the total and the
// minute with the highest number, which is the most useful information about so many numbers.
func Minutely(label, tone string, from time.Time, values []int64) *Spark {
	at := func(i int) string { return from.Add(time.Duration(i)*time.Minute).UTC().Format("15:04") + " UTC" }
	s := newSpark(values, minuteHeight, func(i int) string { return "at " + at(i) })
	if s == nil {
		return nil
	}
	var total int64
	most := 0
	for i, n := range values {
		if total += n; n > values[most] {
			most = i
		}
	}
	s.Tone = tone
	s.Words = fmt.Sprintf("By minute, %s: %s in %d minutes, with a maximum of %s at %s", label, Count(total), len(values),
		Count(values[most]), at(most))
	return s
}

// Hourly draws numbers for the last 24 hours, counted back from now; the most recent hour comes
// last.
func Hourly(values []int64) *Spark {
	return NewSpark(values, "By hour, most recent last", func(i int) string {
		if ago := len(values) - i; ago > 1 {
			return fmt.Sprintf("%d to %d hours ago", ago-1, ago)
		}
		return "in the last hour"
	})
}

// NiceAbove returns the smallest number of the form 1, 2 or 5 times a power of ten that is not less
// than n, for the end of an axis.
func NiceAbove(n float64) float64 {
	if n <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(n)))
	for _, f := range []float64{1, 2, 5} {
		if n <= f*power*(1+1e-9) {
			return f * power
		}
	}
	return 10 * power
}
