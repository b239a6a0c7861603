package measure

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// levelFigure is one figure of a process that must stay level over a long run.
type levelFigure struct {
	name  string
	floor float64 // growth up to this is noise, however small the figure is
	unit  float64 // it is printed in units of this
}

// levelFigures are read together at each moment of a soak.
var levelFigures = []levelFigure{
	{"goroutines", 5, 1},
	{"open files", 5, 1},
	{"connections", 2, 1},
	{"RSS MB", 4e6, 1e6},
	{"heap MB", 2e6, 1e6}, // the size at which the collector starts again: twice what it last left
}

// maxGrowth is how much a figure may grow over the last half of a soak.
const maxGrowth = 0.05

// reading holds the figures of one moment, in the order of levelFigures.
type reading struct {
	at      time.Duration // since the start
	figures []float64
}

// growth returns the typical value of figure i over samples, and by how much it grew from the first
// to the last. It uses the median of the slopes of all pairs: single peaks, and a figure that
// swings, barely move it.
func growth(samples []reading, i int) (typical, grew float64) {
	if len(samples) < 2 {
		return 0, 0
	}
	var values, slopes []float64
	for n, a := range samples {
		values = append(values, a.figures[i])
		for _, b := range samples[n+1:] {
			if d := (b.at - a.at).Seconds(); d > 0 {
				slopes = append(slopes, (b.figures[i]-a.figures[i])/d)
			}
		}
	}
	return median(values), median(slopes) * (samples[len(samples)-1].at - samples[0].at).Seconds()
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// judgeGrowth prints how each figure moved over the last half of a soak, and returns
// those that grew.
func judgeGrowth(out io.Writer, all []reading) (grown []error) {
	if len(all) == 0 {
		return nil
	}
	half := all[len(all)-1].at / 2
	last := slices.DeleteFunc(slices.Clone(all), func(s reading) bool { return s.at < half })
	for i, f := range levelFigures {
		typical, grew := growth(last, i)
		share := 0.0
		if typical > 0 {
			share = grew / typical
		}
		fmt.Fprintf(out, "%-12s median %8.1f, change over the last half %+7.2f (%+.1f %%)\n",
			f.name, typical/f.unit, grew/f.unit, 100*share)
		if grew > f.floor && share > maxGrowth {
			grown = append(grown, fmt.Errorf("GROWS: %s grew by %.1f %% over the last half", f.name, 100*share))
		}
	}
	return grown
}
