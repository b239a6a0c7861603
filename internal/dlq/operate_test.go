package dlq

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
)

// ends are the resolutions that letters of a status may have.
func ends(s Status) []Resolution {
	if !s.Terminal() {
		return []Resolution{""}
	}
	return slices.DeleteFunc(slices.Clone(Resolutions), func(r Resolution) bool { return !r.Ends(s) })
}

func TestActionsOfEveryLetter(t *testing.T) {
	t.Parallel()
	for _, source := range Sources {
		for _, status := range Statuses {
			for _, why := range ends(status) {
				l := Letter{Source: source, Status: status, Resolution: why, MaxRetries: 3}
				want := map[Status][]string{
					Pending:  {VerbRetry, VerbDiscard, VerbResolve, VerbUpdate, VerbDelete},
					Retrying: {VerbUpdate},
					Resolved: {VerbUpdate, VerbDelete},
					Dead:     {VerbRequeue, VerbResolve, VerbUpdate, VerbDelete},
				}[status]
				if why == Redriven {
					want = []string{VerbAck, VerbUpdate, VerbDelete}
				}
				waited := source == FromSaga && status != Resolved
				if waited { // a saga is waiting: only force discards or deletes the letter
					want = slices.DeleteFunc(want, func(v string) bool { return v == VerbDiscard || v == VerbDelete })
				}
				if d := cmp.Diff(want, l.Actions()); d != "" || l.Waited() != waited {
					t.Errorf("%s %s %s, waited for: %v (-want +got):\n%s", source, status, why, l.Waited(), d)
				}
			}
		}
	}
}

// The actions offered are those that the rules allow without force.
func TestWhatIsOfferedIsAllowedAndWhatIsNotIsRefused(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy
	for _, status := range Statuses {
		for _, why := range ends(status) {
			l := Letter{Source: FromREST, Status: status, Resolution: why, MaxRetries: 3, Generation: 1}
			for verb, err := range map[string]error{
				VerbRetry: l.Unretryable(false), VerbRequeue: refusal(l, RequeueRequested{Policy: &p}),
				VerbDiscard: refusal(l, DiscardRequested{}), VerbResolve: refusal(l, ResolveRequested{}),
				VerbAck: refusal(l, ConsumerReported{Generation: 1, Processed: false, Policy: &p}), VerbDelete: l.Deletable(),
				VerbUpdate: refusal(l, EditRequested{Edit{Note: new("n")}}),
			} {
				f := fault.As(err)
				switch offered := slices.Contains(l.Actions(), verb); {
				case offered && err != nil:
					t.Errorf("%s %s: %s is offered and refused: %v", status, why, verb, err)
				case !offered && (f == nil || f.Kind != fault.Conflict || f.Code != CodeConflict):
					t.Errorf("%s %s: %s is not offered, and the rule says %v", status, why, verb, err)
				case !offered && !slices.Equal(f.Allowed, l.Actions()):
					t.Errorf("%s %s: whoever tries %s is told that %v is possible", status, why, verb, f.Allowed)
				}
			}
		}
	}
}

func TestWhoMayRetryWhat(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status Status
		force  bool
		says   string // "": it may be
	}{
		{Pending, false, ""}, {Pending, true, ""}, {Dead, true, ""},
		{Dead, false, "retry it with \"force\": true"},
		{Retrying, false, "is RETRYING and cannot be retried"}, {Retrying, true, "is RETRYING and cannot be retried"},
		{Resolved, false, "is RESOLVED and cannot be retried"}, {Resolved, true, "is RESOLVED and cannot be retried"},
	} {
		l := Letter{Status: tt.status}
		err := l.Unretryable(tt.force)
		if tt.says == "" != (err == nil) || err != nil && !strings.Contains(fault.As(err).Detail, tt.says) {
			t.Errorf("%s, force %v: %v, want %q", tt.status, tt.force, err, tt.says)
		}
	}
}

func TestARequeuedLetterHasARetryLeft(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy
	for _, tt := range []struct {
		name            string
		count, max      int
		reset           bool
		bound           *int
		wantCount, left int
	}{
		{"one more is granted", 3, 3, false, nil, 3, 1},
		{"what is left stays", 1, 3, false, nil, 1, 2},
		{"a higher bound", 3, 3, false, new(7), 3, 4},
		{"a bound below the count", 3, 3, false, new(2), 3, 1},
		{"from the beginning", 3, 3, true, nil, 0, 3},
		{"from the beginning, with a bound", 3, 3, true, new(2), 0, 2},
		{"from the beginning, with none", 3, 3, true, new(0), 0, 1},
		{"one that was never to be retried", 0, 0, false, nil, 0, 1},
	} {
		before := Letter{Source: FromKafka, Status: Dead, Resolution: Exhausted, RetryCount: tt.count, MaxRetries: tt.max,
			TerminalAt: &testNow, HeldRetryAt: &testNow, RetryAsked: true, Version: 4}
		m := Moment{Now: testNow.Add(time.Hour), Jitter: 0.25}
		after, err := applied(before, RequeueRequested{Reset: tt.reset, MaxRetries: tt.bound, Policy: &p}, m)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		want := before
		want.Status, want.Resolution, want.TerminalAt, want.HeldRetryAt, want.RetryAsked = Pending, "", nil, nil, false
		want.RetryCount, want.MaxRetries = tt.wantCount, tt.wantCount+tt.left
		want.NextRetryAt = p.NextRetry(FromKafka, tt.wantCount, m.Now, m.Jitter)
		want.Version, want.UpdatedAt = 5, m.Now
		if d := cmp.Diff(want, after); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}

func TestWhatAConsumerSaysOfARedrivenLetter(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy
	earlier := testNow.Add(-time.Hour)
	redriven := Letter{Source: FromKafka, Status: Resolved, Resolution: Redriven, Generation: 2, RetryCount: 1,
		MaxRetries: 3, TerminalAt: &earlier, Version: 7, UpdatedAt: earlier}
	with := func(change func(*Letter)) Letter {
		l := redriven
		change(&l)
		return l
	}
	changed := func(l *Letter) { l.Version, l.UpdatedAt = 8, testNow }
	exhausted := func(l *Letter) {
		changed(l)
		l.Status, l.Resolution, l.RetryCount, l.TerminalAt = Dead, Exhausted, l.MaxRetries, &testNow
	}
	confirmed := with(func(l *Letter) { l.Resolution = Confirmed })
	for _, tt := range []struct {
		name       string
		before     Letter
		generation int
		processed  bool
		want       func(*Letter) // nil: Conflict
	}{
		{"processed: retention counts from when it was resolved", redriven, 2, true,
			func(l *Letter) { changed(l); l.Resolution = Confirmed }},
		{"failed again", redriven, 2, false, func(l *Letter) {
			changed(l)
			l.Status, l.Resolution, l.RetryCount, l.TerminalAt = Pending, "", 2, nil
			l.NextRetryAt = p.NextRetry(FromKafka, 4, testNow, 0.5) // its lineage also came back twice
		}},
		{"failed for the last time", with(func(l *Letter) { l.RetryCount = 2 }), 2, false, exhausted},
		{"failed, and its bound was lowered meanwhile",
			with(func(l *Letter) { l.RetryCount, l.MaxRetries = 3, 3 }), 2, false, exhausted},
		{"failed, and it had no retries at all",
			with(func(l *Letter) { l.RetryCount, l.MaxRetries = 0, 0 }), 2, false, exhausted},
		{"of an earlier generation", redriven, 1, true, nil},
		{"of a later one", redriven, 3, false, nil},
		{"told twice", confirmed, 2, true, func(*Letter) {}},
		{"told twice, of another generation", confirmed, 1, true, nil},
		{"told otherwise later", confirmed, 2, false, nil},
		{"of one that came back", with(func(l *Letter) { l.Resolution = Bounced }), 2, true, nil},
		{"of one resolved by hand", with(func(l *Letter) { l.Resolution = Manual }), 2, true, nil},
		{"of one that is open", with(func(l *Letter) { l.Status, l.Resolution = Pending, "" }), 2, true, nil},
	} {
		want := tt.before
		told := ConsumerReported{Generation: tt.generation, Processed: tt.processed, Policy: &p}
		after, err := applied(tt.before, told, testMoment())
		if tt.want == nil {
			if fault.KindOf(err) != fault.Conflict {
				t.Errorf("%s: %v", tt.name, err)
			}
		} else {
			tt.want(&want)
		}
		if d := cmp.Diff(want, after); d != "" || tt.want != nil && err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, d)
		}
	}
}

func TestAnEditOfALetter(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 12, 1, 10, 0, 0, 1999, time.FixedZone("", 3600))
	stored := time.Date(2026, 12, 1, 9, 0, 0, 1000, time.UTC)
	labels := []string{"b", "a", "b"}
	for _, tt := range []struct {
		name   string
		status Status
		edit   Edit
		want   func(*Letter) // nil: refused
		kind   fault.Kind
	}{
		{"nothing", Pending, Edit{}, func(*Letter) {}, 0},
		{"more retries", Pending, Edit{MaxRetries: new(9)}, func(l *Letter) { l.MaxRetries = 9 }, 0},
		{"fewer, and one is left", Pending, Edit{MaxRetries: new(3)}, func(l *Letter) { l.MaxRetries = 3 }, 0},
		{"fewer, and none is left", Pending, Edit{MaxRetries: new(2)}, nil, fault.Invalid},
		{"fewer than were made", Pending, Edit{MaxRetries: new(1)}, nil, fault.Invalid},
		{"retries of one under way", Retrying, Edit{MaxRetries: new(9)}, nil, fault.Conflict},
		{"more retries of a dead one", Dead, Edit{MaxRetries: new(9)}, func(l *Letter) { l.MaxRetries = 9 }, 0},
		{"no fewer than were made", Dead, Edit{MaxRetries: new(1)}, func(l *Letter) { l.MaxRetries = 2 }, 0},
		{"a time", Pending, Edit{NextRetryAt: &at}, func(l *Letter) {
			l.NextRetryAt, l.HeldRetryAt, l.RetryAsked = &stored, nil, true
		}, 0},
		{"a time of one under way", Retrying, Edit{NextRetryAt: &at}, nil, fault.Conflict},
		{"a time of a resolved one", Resolved, Edit{NextRetryAt: &at}, nil, fault.Conflict},
		{"a time of a dead one", Dead, Edit{NextRetryAt: &at}, nil, fault.Conflict},
		{"labels, each once and in order", Resolved, Edit{Labels: labels},
			func(l *Letter) { l.Labels = []string{"a", "b"} }, 0},
		{"no labels", Retrying, Edit{Labels: []string{}}, func(l *Letter) { l.Labels = []string{} }, 0},
		{"an assignee", Retrying, Edit{Assignee: new("ann")}, func(l *Letter) { l.Assignee = "ann" }, 0},
		{"nobody", Dead, Edit{Assignee: new("")}, func(l *Letter) { l.Assignee = "" }, 0},
		{"a note", Dead, Edit{Note: new("seen")}, func(l *Letter) { l.Note = "seen" }, 0},
		{"no note", Pending, Edit{Note: new("")}, func(l *Letter) { l.Note = "" }, 0},
	} {
		before := Letter{Status: tt.status, RetryCount: 2, MaxRetries: 4, HeldRetryAt: &testNow, Labels: []string{"old"},
			Assignee: "bob", Note: "old", Version: 3}
		want := before
		after, err := applied(before, EditRequested{tt.edit}, testMoment())
		if tt.want == nil {
			if fault.KindOf(err) != tt.kind || after.Version != 3 {
				t.Errorf("%s: version %d, %v", tt.name, after.Version, err)
			}
			continue
		}
		tt.want(&want)
		want.Version, want.UpdatedAt = 4, testNow
		if d := cmp.Diff(want, after); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, d)
		}
	}
	if !slices.Equal(labels, []string{"b", "a", "b"}) {
		t.Errorf("the labels of the one who asks became %v", labels)
	}
}

// An error names the missing setting, and the kind that no driver exists for.
func TestWhatIsSaidOfTargetsThatAreNotConfigured(t *testing.T) {
	t.Parallel()
	for _, kind := range TargetKinds {
		want := "target kind " + string(kind) + " is not configured on this server"
		if kind == ToKafka {
			want = "SKALD_KAFKA_BROKERS"
		}
		if got := TargetNotConfigured(kind); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
}

func TestFaultsOfLettersThatAreNotAsTheyWere(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	if f := NotFound(id); f.Kind != fault.NotFound || f.Code != CodeNotFound || !strings.Contains(f.Detail, id.String()) {
		t.Errorf("not found: %+v", f)
	}
	if f := Stale(id, 9); f.Kind != fault.Precondition || f.Code != CodeStale ||
		!strings.HasSuffix(f.Detail, "at version 9") {
		t.Errorf("stale: %+v", f)
	}
}

func TestAMomentTakesItsJitterFromChance(t *testing.T) {
	t.Parallel()
	drawn := 0.0
	c := Chance{Jitter: func() float64 { drawn += 0.25; return drawn }}
	for _, want := range []float64{0.25, 0.5} {
		if m := c.At(testNow); m != (Moment{testNow, want}) {
			t.Errorf("%+v, want the jitter %v", m, want)
		}
	}
}
