package measure

import (
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// soaked returns the samples of an hour; figure i at a moment is what of says.
func soaked(of func(figure int, at float64) float64) (all []reading) {
	for n := range 360 {
		s := reading{at: time.Duration(n) * 10 * time.Second}
		for i := range levelFigures {
			s.figures = append(s.figures, of(i, float64(n)/360))
		}
		all = append(all, s)
	}
	return all
}

func TestGrowthIsToldFromNoise(t *testing.T) {
	noise := rand.New(rand.NewPCG(1, 2))
	base := []float64{80, 40, 11, 120e6, 60e6}
	for name, tt := range map[string]struct {
		of   func(i int, at float64) float64
		want string // the figure that grows; "": none
	}{
		"level":              {func(i int, _ float64) float64 { return base[i] }, ""},
		"noise of a fifth":   {func(i int, _ float64) float64 { return base[i] * (0.9 + 0.2*noise.Float64()) }, ""},
		"it grew until half": {func(i int, at float64) float64 { return base[i] * (1 + min(at, 0.5)) }, ""},
		"a peak at the end": {func(i int, at float64) float64 {
			if at > 0.97 {
				return 3 * base[i]
			}
			return base[i]
		}, ""},
		"it shrinks":          {func(i int, at float64) float64 { return base[i] * (2 - at) }, ""},
		"one more connection": {func(i int, at float64) float64 { return base[i] + float64(int(1.3*at)) }, ""},
		"goroutines leak": {func(i int, at float64) float64 {
			if i == 0 {
				return base[i] * (1 + 0.3*at)
			}
			return base[i]
		}, "goroutines"},
		"memory leaks under noise": {func(i int, at float64) float64 {
			if i == 3 {
				return base[i] * (0.95 + 0.1*noise.Float64() + 0.2*at)
			}
			return base[i]
		}, "RSS MB"},
	} {
		err := errors.Join(judgeGrowth(io.Discard, soaked(tt.of))...)
		told := ""
		if err != nil {
			told = err.Error()
		}
		if tt.want == "" && told != "" || !strings.HasPrefix(told, strings.TrimSuffix("GROWS: "+tt.want, "GROWS: ")) {
			t.Errorf("%s: %q, want %q", name, told, tt.want)
		}
	}
}
