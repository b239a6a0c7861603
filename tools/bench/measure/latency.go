package measure

import (
	"math"
	"slices"
	"time"
)

// Millis is a duration in milliseconds, the unit of every time in a report.
type Millis float64

func millis(d time.Duration) Millis {
	return Millis(float64(d) / float64(time.Millisecond))
}

// Latency summarizes a set of durations. All fields are zero when Count is.
type Latency struct {
	Count int    `json:"count"`
	P50   Millis `json:"p50_ms"`
	P95   Millis `json:"p95_ms"`
	P99   Millis `json:"p99_ms"`
	Max   Millis `json:"max_ms"`
}

// summarize sorts samples in place and summarizes them. Percentiles are nearest rank: always a
// measured value.
func summarize(samples []time.Duration) Latency {
	if len(samples) == 0 {
		return Latency{}
	}
	slices.Sort(samples)
	rank := func(q float64) Millis {
		return millis(samples[int(math.Ceil(q*float64(len(samples))))-1])
	}
	return Latency{Count: len(samples), P50: rank(0.50), P95: rank(0.95), P99: rank(0.99), Max: rank(1)}
}
