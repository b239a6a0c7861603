package retry_test

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/skald-saga/skald/internal/retry"
)

// policies generates policies within the ranges that workflow definitions accept.
func policies() *rapid.Generator[retry.Policy] {
	return rapid.Custom(func(t *rapid.T) retry.Policy {
		p := retry.Policy{
			MaxAttempts:       rapid.IntRange(1, 1_000_000).Draw(t, "max_attempts"),
			InitialIntervalMS: rapid.Int64Range(1, 86_400_000).Draw(t, "initial_interval_ms"),
			MaxIntervalMS:     rapid.Int64Range(1, 604_800_000).Draw(t, "max_interval_ms"),
			Multiplier:        rapid.Float64Range(1, 100).Draw(t, "multiplier"),
			RetryOn:           rapid.SliceOf(rapid.SampledFrom(retry.Classes)).Draw(t, "retry_on"),
		}
		if rapid.Bool().Draw(t, "has jitter") {
			p.Jitter = new(rapid.Float64Range(0, 1).Draw(t, "jitter"))
		}
		return p
	})
}

// inside is [0,1), as Moment.Jitter promises.
func inside() *rapid.Generator[float64] { return rapid.Float64Range(0, math.Nextafter(1, 0)) }

func millis(f float64) time.Duration { return time.Duration(f * float64(time.Millisecond)) }

func TestDelayStaysInItsBoundsForAMillionFailures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policies().Draw(t, "policy")
		failures := rapid.IntRange(-1, 1_000_000).Draw(t, "failures")
		after := time.Duration(rapid.Int64().Draw(t, "retry after"))
		got := p.Delay(failures, inside().Draw(t, "random"), after)

		spread := 0.0
		if p.Jitter != nil {
			spread = *p.Jitter
		}
		wish := max(min(after, time.Hour), 0)
		longest := float64(max(p.MaxIntervalMS, p.InitialIntervalMS)) * (1 + spread)
		if top := max(millis(longest)+time.Microsecond, wish); got > top {
			t.Errorf("Delay = %v, more than %v", got, top)
		}
		if bottom := max(millis(float64(p.InitialIntervalMS)*(1-spread))-time.Microsecond, wish); got < bottom {
			t.Errorf("Delay = %v, less than %v", got, bottom)
		}
	})
}

func TestDelayNeverShrinksWithMoreFailures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, random := policies().Draw(t, "policy"), inside().Draw(t, "random")
		n := rapid.IntRange(1, 1_000_000).Draw(t, "failures")
		if a, b := p.Delay(n, random, 0), p.Delay(n+1, random, 0); a > b {
			t.Errorf("after %d failures %v, after one more %v", n, a, b)
		}
	})
}

func TestDelay(t *testing.T) {
	doubling := retry.Policy{InitialIntervalMS: 200, MaxIntervalMS: 5000, Multiplier: 2}
	spread := doubling
	spread.Jitter = new(0.2)
	for _, tt := range []struct {
		name     string
		p        retry.Policy
		failures int
		random   float64
		after    time.Duration
		want     time.Duration
	}{
		{"the second attempt waits the initial interval", doubling, 1, 0, 0, 200 * time.Millisecond},
		{"each further one waits the multiple", doubling, 3, 0, 0, 800 * time.Millisecond},
		{"no wait is longer than the maximum", doubling, 6, 0, 0, 5 * time.Second},
		{"no number of failures overflows", doubling, math.MaxInt, 0, 0, 5 * time.Second},
		{"zero failures count as one", doubling, 0, 0, 0, 200 * time.Millisecond},
		{"the lowest jitter shortens", spread, 1, 0, 0, 160 * time.Millisecond},
		{"the middle jitter changes nothing", spread, 1, 0.5, 0, 200 * time.Millisecond},
		{"jitter spreads the capped wait too", spread, 60, 0, 0, 4 * time.Second},
		{"an initial interval above the maximum counts", retry.Policy{InitialIntervalMS: 9000, MaxIntervalMS: 5000, Multiplier: 2}, 3, 0, 0, 9 * time.Second},
		{"Retry-After is a lower bound", doubling, 1, 0, 3 * time.Second, 3 * time.Second},
		{"a shorter Retry-After does not shorten", doubling, 3, 0, 100 * time.Millisecond, 800 * time.Millisecond},
		{"Retry-After may exceed the maximum", doubling, 1, 0, time.Minute, time.Minute},
		{"an hour is the most a participant may ask for", doubling, 1, 0, 100 * 365 * 24 * time.Hour, time.Hour},
		{"a negative Retry-After is none", doubling, 1, 0, -time.Hour, 200 * time.Millisecond},
		{"a multiplier of one keeps the interval", retry.Policy{InitialIntervalMS: 300, MaxIntervalMS: 5000, Multiplier: 1}, 1_000_000, 0, 0, 300 * time.Millisecond},
		{"the zero policy does not wait", retry.Policy{}, 3, 0.5, 0, 0},
		{"a policy without initial interval does not wait, however often it failed", retry.Policy{Multiplier: 2, MaxIntervalMS: 10}, 1_000_000, 0.5, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.p.Delay(tt.failures, tt.random, tt.after); got != tt.want {
				t.Errorf("Delay(%d, %v, %v) = %v, want %v", tt.failures, tt.random, tt.after, got, tt.want)
			}
		})
	}
}

func TestAllows(t *testing.T) {
	all := retry.Policy{MaxAttempts: 3, RetryOn: retry.Classes}
	for _, tt := range []struct {
		name     string
		p        retry.Policy
		class    retry.Class
		failures int
		want     bool
	}{
		{"one failure of three attempts may be followed", all, retry.Timeout, 1, true},
		{"the last attempt may not be followed", all, retry.Timeout, 3, false},
		{"nor one beyond it", all, retry.Timeout, 4, false},
		{"a refusal is definite", all, retry.Refused, 1, false},
		{"a refusal is definite even when listed", retry.Policy{MaxAttempts: 3, RetryOn: []retry.Class{retry.Refused}}, retry.Refused, 1, false},
		{"a class that is not listed is not retried", retry.Policy{MaxAttempts: 3, RetryOn: []retry.Class{retry.Network}}, retry.Timeout, 1, false},
		{"an empty list retries nothing", retry.Policy{MaxAttempts: 3, RetryOn: []retry.Class{}}, retry.Timeout, 1, false},
		{"one attempt in all is not retried", retry.Policy{MaxAttempts: 1, RetryOn: retry.Classes}, retry.Network, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.p.Allows(tt.class, tt.failures); got != tt.want {
				t.Errorf("Allows(%s, %d) = %v, want %v", tt.class, tt.failures, got, tt.want)
			}
		})
	}
}

func TestOrFillsOnlyWhatIsMissing(t *testing.T) {
	own := retry.Policy{
		MaxAttempts: 7, InitialIntervalMS: 11, MaxIntervalMS: 13, Multiplier: 1.5,
		Jitter: new(0.0), RetryOn: []retry.Class{},
	}
	for _, tt := range []struct {
		name    string
		p, want retry.Policy
	}{
		{"the zero policy becomes the base", retry.Policy{}, retry.Default},
		{"a complete policy stays, with no jitter and no retried class", own, own},
		{"one given field leaves the others to the base", retry.Policy{MaxAttempts: 1}, func() retry.Policy {
			p := retry.Default
			p.MaxAttempts = 1
			return p
		}()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.p.Or(retry.Default)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestJSONKeepsWhatInheritsApartFromWhatIsEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := policies().Draw(t, "policy")
		want.RetryOn = rapid.SampledFrom([][]retry.Class{nil, {}, {retry.Network}, retry.Classes}).Draw(t, "retry_on")
		if rapid.Bool().Draw(t, "zero jitter") {
			want.Jitter = new(0.0)
		}
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got retry.Policy
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s read back (-want +got):\n%s", b, diff)
		}
	})
}

func TestTheBuiltInPoliciesAreComplete(t *testing.T) {
	for name, p := range map[string]retry.Policy{"Default": retry.Default, "Patient": retry.Patient} {
		if p.MaxAttempts < 1 || p.Multiplier < 1 || p.Jitter == nil || p.RetryOn == nil {
			t.Errorf("%s leaves something to inherit: %+v", name, p)
		}
		if p.InitialIntervalMS < 1 || p.MaxIntervalMS < p.InitialIntervalMS {
			t.Errorf("%s waits from %d ms to %d ms", name, p.InitialIntervalMS, p.MaxIntervalMS)
		}
		if slices.Contains(p.RetryOn, retry.Refused) {
			t.Errorf("%s retries refusals", name)
		}
	}
	var total time.Duration
	for n := 1; n < retry.Patient.MaxAttempts; n++ {
		total += retry.Patient.Delay(n, 0.5, 0)
	}
	if total < 10*time.Minute || total > 20*time.Minute {
		t.Errorf("Patient tries for %v, its comment says about 15 minutes", total)
	}
}
