package dlq

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"
)

func TestWhatIsBacklog(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{false, true} {
		for _, known := range []bool{false, true} {
			for _, read := range []bool{false, true} {
				for _, end := range []int64{Unmeasured, 0, 10} {
					sight := Sight{FirstLook: first, KnownTopic: known, Read: read, End: end}
					want := int64(0)
					if first && !known && !read {
						want = end
					}
					if got := sight.BacklogEnd(); got != want {
						t.Errorf("%+v: the backlog ends at %d, want %d", sight, got, want)
					}
				}
			}
		}
	}
	for offset, want := range map[int64]bool{0: true, 9: true, 10: false, 11: false} {
		if got := (Inflow{BacklogEnd: 10}).Backlog(offset); got != want {
			t.Errorf("offset %d is backlog: %t", offset, got)
		}
		if (Inflow{}).Backlog(offset) {
			t.Errorf("offset %d is backlog, and there is none", offset)
		}
	}
}

func TestBacklogIsHeldForAPerson(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)
	for _, status := range Statuses {
		labels := append(make([]string, 0, 4), "a")
		l := Letter{Status: status, NextRetryAt: &at, Labels: labels}
		want := l
		if status == Pending {
			want.NextRetryAt, want.Labels = nil, []string{"a", LabelBacklog}
		}
		if diff := cmp.Diff(want, l.Hold()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", status, diff)
		}
		if shared := labels[:2]; shared[1] != "" {
			t.Errorf("%s: the caller's labels have become %v", status, shared)
		}
	}
}

// Setting nothing changes nothing, and exactly the given fields are set. An empty value is also a
// value.
func TestAnEditReplacesWhatItNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.SampledFrom([][]byte{nil, {}, []byte("a"), []byte("b")})
		headers := rapid.SampledFrom([][]Header{nil, {}, {{Name: "h"}}, {{Name: "h", Value: []byte{}}}})
		draw := func(name string) Content {
			return Content{
				Key: part.Draw(t, name+" key"), Payload: part.Draw(t, name+" payload"), Headers: headers.Draw(t, name+" headers"),
			}
		}
		stored, edit := draw("stored"), draw("edit")
		want := edit
		if want.Key == nil {
			want.Key = stored.Key
		}
		if want.Payload == nil {
			want.Payload = stored.Payload
		}
		if want.Headers == nil {
			want.Headers = stored.Headers
		}
		if diff := cmp.Diff(want, stored.With(edit)); diff != "" {
			t.Fatalf("edited (-want +got):\n%s", diff)
		}
		d := Drive{Letter: Letter{ID: uuid.UUID{1}, RootID: uuid.UUID{1}, Content: stored}, Send: want}
		if edited := d.EditTag() != ""; edited != !stored.same(want) {
			t.Fatalf("%+v is sent for %+v, and edited is %t", want, stored, edited)
		}
	})
}

func TestAGivenBackHoldIsSpreadOverOneBackoff(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)
	p := DefaultPolicy
	for failures, most := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
		for _, spread := range []float64{0, 0.25, 0.5} {
			want := at.Add(time.Duration(spread * float64(most)))
			if got := p.Released(failures, at, spread); !got.Equal(want) {
				t.Errorf("after %d failures, %g of the way: %s, want %s", failures, spread, got, want)
			}
		}
	}
	if *p.Backoff.Jitter != *DefaultPolicy.Backoff.Jitter {
		t.Error("the policy has lost its jitter")
	}
}
