package dlq_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// stored returns one of our own letters in a status, with the given number of failed retries.
func stored(source dlq.Source, status dlq.Status, retries int) dlq.Letter {
	l := dlq.New(dlq.Letter{
		Source: source, OriginalTopic: "saga.order.reserve.compensate", MaxRetries: 3, Target: dlq.Target{Kind: dlq.ToSaga},
		Failure: dlq.Failure{Message: "the stock is closed", Type: "http_503", Class: dlq.Transient},
	}, uuid.UUID{1}, &dlq.DefaultPolicy, dlq.Moment{Now: noon})
	l.Status, l.RetryCount = status, retries
	switch status {
	case dlq.Retrying:
		began, until := noon.Add(time.Second), noon.Add(time.Minute)
		l.Token, l.LastRetryAt, l.LeaseUntil = uuid.UUID{7}, &began, &until
	case dlq.Resolved:
		l.Resolution, l.TerminalAt = dlq.Confirmed, &noon
	case dlq.Dead:
		l.Resolution, l.TerminalAt = dlq.Exhausted, &noon
	}
	return l
}

// reported returns the letter after its source has reported n.
func reported(l dlq.Letter, n *dlq.SourceUpdate, m dlq.Moment) (after dlq.Letter, ended *dlq.Attempt, changed bool) {
	c, err := dlq.Apply(l, dlq.SourceReported{SourceUpdate: n}, m)
	if err != nil {
		panic(err)
	}
	return c.After, c.Attempt, c.Changes()
}

func TestNewsOfALetterFollowTheTable(t *testing.T) {
	later := noon.Add(time.Hour)
	failure := dlq.Failure{Message: "the stock has burned down", Type: "http_410", Class: dlq.Permanent}
	on := map[dlq.Outcome]dlq.Trigger{
		dlq.RetryStarted: dlq.SourceGoesOn, dlq.Succeeded: dlq.SourceDone, dlq.HandledManually: dlq.SourceDone,
		dlq.GaveUp: dlq.SourceGaveUp, dlq.RetryStopped: dlq.SourceGaveUp,
	}
	taken := map[dlq.Edge]bool{}
	for _, source := range []dlq.Source{dlq.FromSaga, dlq.FromWebhook} {
		for _, status := range dlq.Statuses {
			for told, trigger := range on {
				for retries := range 4 {
					if status == dlq.Pending && retries == 3 {
						continue // no such letter
					}
					before := stored(source, status, retries)
					n := dlq.SourceUpdate{Outcome: told, Token: uuid.UUID{8}, Actor: "op",
						Letter: dlq.Letter{Failure: failure, Fingerprint: "f"}}
					after, ended, changed := reported(before, &n, dlq.Moment{Now: later})
					if wrong := contradiction(&after); wrong != nil {
						t.Fatalf("%s %s, %s after %d retries: %v: %+v", source, status, told, retries, wrong, after)
					}
					if !changed {
						if after.Version != before.Version || after.Status != status || ended != nil {
							t.Fatalf("%s %s, %s: nothing new, yet %+v, %+v", source, status, told, after, ended)
						}
						continue
					}
					if after.Version != before.Version+1 || !after.UpdatedAt.Equal(later) {
						t.Fatalf("%s %s, %s: version %d, updated at %s", source, status, told, after.Version, after.UpdatedAt)
					}
					if (ended != nil) != (status == dlq.Retrying && told != dlq.RetryStarted) {
						t.Fatalf("%s %s, %s: the retry that ended is %+v", source, status, told, ended)
					}
					if after.Status == status {
						continue
					}
					e := dlq.Edge{From: status, To: after.Status, On: trigger}
					if !slices.Contains(dlq.Edges, e) {
						t.Fatalf("%s: %+v is not in the table", source, e)
					}
					taken[e] = true
				}
			}
		}
	}
	for _, e := range dlq.Edges {
		if slices.Contains([]dlq.Trigger{dlq.SourceGoesOn, dlq.SourceDone, dlq.SourceGaveUp}, e.On) && !taken[e] {
			t.Errorf("nothing ever takes %+v", e)
		}
	}
}

// contradiction returns what the CHECK constraints of the table would reject.
func contradiction(l *dlq.Letter) error {
	switch {
	case (l.Status == dlq.Retrying) != (l.Token != uuid.Nil), (l.Token == uuid.Nil) != (l.LeaseUntil == nil):
		return errors.New("a lease without a retry, or the other way round")
	case l.Status.Terminal() != (l.TerminalAt != nil), l.Status.Terminal() != (l.Resolution != ""):
		return errors.New("an end without end")
	case l.RetryCount > l.MaxRetries, l.Status == dlq.Pending && l.RetryCount == l.MaxRetries:
		return errors.New("no retry is left, or there were too many")
	}
	return nil
}

func TestARetryThatGivesUpCountsOnce(t *testing.T) {
	n := dlq.SourceUpdate{Outcome: dlq.GaveUp, Actor: "op",
		Letter: dlq.Letter{Failure: dlq.Failure{Message: "again"}, Fingerprint: "f"}}
	for _, tt := range []struct {
		name    string
		status  dlq.Status
		retries int
		want    dlq.Status
		count   int
	}{
		{"the first", dlq.Retrying, 0, dlq.Pending, 1},
		{"the last", dlq.Retrying, 2, dlq.Dead, 3},
		{"one that was forced", dlq.Retrying, 3, dlq.Dead, 3},
		{"one whose lease has passed, and was counted then", dlq.Pending, 1, dlq.Pending, 1},
		{"one whose lease has passed, and was the last", dlq.Dead, 3, dlq.Dead, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			after, ended, changed := reported(stored(dlq.FromSaga, tt.status, tt.retries), &n,
				dlq.Moment{Now: noon.Add(time.Minute)})
			want := after
			want.Status, want.RetryCount, want.Failure.Message, want.Fingerprint = tt.want, tt.count, "again", "f"
			if diff := cmp.Diff(want, after); diff != "" || !changed {
				t.Errorf("changed %t (-want +got):\n%s", changed, diff)
			}
			if tt.status != dlq.Retrying {
				return
			}
			drive := ended
			drive.Outcome, drive.Error, drive.Actor = dlq.FailedDrive, "again", "op"
			drive.Token, drive.StartedAt = uuid.UUID{7}, noon.Add(time.Second)
			if diff := cmp.Diff(drive, ended); diff != "" {
				t.Errorf("the retry ended (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARetryThatGoesOnKeepsItsToken(t *testing.T) {
	n := dlq.SourceUpdate{Outcome: dlq.RetryStarted, Token: uuid.UUID{8}}
	m := dlq.Moment{Now: noon.Add(time.Minute)}
	if after, _, _ := reported(stored(dlq.FromSaga, dlq.Retrying, 0), &n, m); after.Token != (uuid.UUID{7}) ||
		!after.LeaseUntil.Equal(m.Now.Add(dlq.Lease)) {
		t.Errorf("token %s until %s; want the one that was claimed, with a new lease", after.Token, after.LeaseUntil)
	}
	if after, _, _ := reported(stored(dlq.FromSaga, dlq.Pending, 0), &n, m); after.Token != n.Token ||
		!after.LastRetryAt.Equal(m.Now) {
		t.Errorf("token %s, begun at %v; want the new one, now", after.Token, after.LastRetryAt)
	}
}
