package measure

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSummarize(t *testing.T) {
	upTo := func(n int) []time.Duration {
		var samples []time.Duration
		for i := n; i >= 1; i-- { // not in order
			samples = append(samples, time.Duration(i)*time.Millisecond)
		}
		return samples
	}
	for _, tt := range []struct {
		name    string
		samples []time.Duration
		want    Latency
	}{
		{"no samples are no latency", nil, Latency{}},
		{"one sample is every percentile", upTo(1), Latency{Count: 1, P50: 1, P95: 1, P99: 1, Max: 1}},
		{"the median of two is the lower one", upTo(2), Latency{Count: 2, P50: 1, P95: 2, P99: 2, Max: 2}},
		{"a hundred samples have one above p99", upTo(100), Latency{Count: 100, P50: 50, P95: 95, P99: 99, Max: 100}},
		{"percentiles are samples, never between two", upTo(101), Latency{Count: 101, P50: 51, P95: 96, P99: 100, Max: 101}},
		{"parts of a millisecond count", []time.Duration{1500 * time.Microsecond}, Latency{Count: 1, P50: 1.5, P95: 1.5, P99: 1.5, Max: 1.5}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, summarize(tt.samples)); diff != "" {
				t.Errorf("summarize (-want +got):\n%s", diff)
			}
		})
	}
}
