package dlq

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/skald-saga/skald/internal/fault"
)

var testNow = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func testMoment() Moment { return Moment{Now: testNow, Jitter: 0.5} }

// pointFault is something that may happen to a letter, with the trigger that it stands for. after
// is nil if it is rejected.
type deed struct {
	name  string
	on    Trigger
	apply func(Letter) *Letter
}

// finished returns l after a retry, as a store writes it.
func finished(l Letter, forced bool, was Resolution, outcome AttemptOutcome) *Letter {
	p := DefaultPolicy
	d := Drive{Letter: l, Forced: forced, Was: was}
	f := finish(&d, Result{Outcome: outcome}, &p, testMoment())
	l.Status, l.Resolution, l.RetryCount, l.NextRetryAt, l.TerminalAt = f.Status, f.Resolution, f.RetryCount,
		f.NextRetryAt, f.TerminalAt
	l.Token, l.LeaseUntil = uuid.Nil, nil
	return &l
}

// claimed returns l as a claim leaves it.
func claimed(l Letter, force bool) *Letter {
	if l.Unretryable(force) != nil {
		return nil
	}
	until := testNow.Add(time.Minute)
	l.Status, l.Resolution, l.TerminalAt, l.NextRetryAt, l.Token, l.LeaseUntil = Retrying, "", nil, nil, uuid.New(), &until
	return &l
}

func orNil(l Letter, err error) *Letter {
	if err != nil {
		return nil
	}
	return &l
}

func retried(forced bool, was Resolution, outcome AttemptOutcome) func(Letter) *Letter {
	return func(l Letter) *Letter {
		if l.Status != Retrying {
			return nil
		}
		return finished(l, forced, was, outcome)
	}
}

func hears(what Outcome) func(Letter) *Letter {
	return func(l Letter) *Letter {
		c, err := Apply(l, SourceReported{&SourceUpdate{Outcome: what, Letter: l, Token: uuid.New()}}, testMoment())
		if legal(err); err != nil || !c.Changes() {
			return nil
		}
		return &c.After
	}
}

// dropped returns l as the store leaves it when it discards the letters of a webhook.
func dropped(on Trigger) func(Letter) *Letter {
	return func(l Letter) *Letter {
		if !slices.Contains(From(on), l.Status) {
			return nil
		}
		l.Token, l.LeaseUntil = uuid.Nil, nil
		d := newDecision(&l, testMoment())
		d.end(on, Discarded)
		if d.illegal != nil {
			panic(d.illegal)
		}
		l = d.done().After
		return &l
	}
}

func deeds() []deed {
	p := DefaultPolicy
	return []deed{
		{"claim", Claimed, func(l Letter) *Letter { return claimed(l, false) }},
		{"claim by force", ForcedClaim, func(l Letter) *Letter { return claimed(l, true) }},
		{"acknowledged", Acked, retried(false, "", Acknowledged)},
		{"failed", RetryFailed, retried(false, "", FailedDrive)},
		{"uncertain", RetryFailed, retried(false, "", Uncertain)},
		{"abandoned", RetryFailed, retried(false, "", Abandoned)},
		{"forced to fail", LastFailed, retried(true, Poison, FailedDrive)},
		{"withdrawn", RetryWithdraw, func(l Letter) *Letter {
			if l.Status != Retrying {
				return nil
			}
			return finished(l, l.RetryCount >= l.MaxRetries, "", Withdrawn) // only a claim with force claims those
		}},
		{"withdrawn by force", RetryWithdraw, retried(true, Discarded, Withdrawn)},
		{"came back", CameBack, func(l Letter) *Letter {
			if !CanMove(l.Status, CameBack) || !slices.Contains(Returnable, l.Resolution) {
				return nil
			}
			l.Resolution = Bounced
			return &l
		}},
		{"confirmed", Confirm, acked(true)},
		{"refuted", Refute, acked(false)},
		{"requeued", Requeue, asked(RequeueRequested{Policy: &p})},
		{"requeued anew", Requeue, asked(RequeueRequested{Reset: true, MaxRetries: new(2), Policy: &p})},
		{"discarded", Discard, asked(DiscardRequested{})},
		{"resolved", Resolve, asked(ResolveRequested{})},
		{"its source goes on", SourceGoesOn, hears(RetryStarted)},
		{"its source is through", SourceDone, hears(Succeeded)},
		{"its source gave up", SourceGaveUp, hears(GaveUp)},
		{"its source stopped", SourceGaveUp, hears(RetryStopped)},
		{"its delivery is skipped", SourceSkipped, dropped(SourceSkipped)},
		{"its webhook is deleted", SourceGone, dropped(SourceGone)},
		{"taken back from the archive", Restore, asked(RestoreRequested{})},
	}
}

// invariants checks the rules for a stored letter: D3, and the CHECK constraints of its table.
func broken(l *Letter) string {
	switch {
	case l.RetryCount < 0 || l.RetryCount > l.MaxRetries:
		return fmt.Sprintf("%d of %d retries", l.RetryCount, l.MaxRetries)
	case l.Status == Pending && l.RetryCount >= l.MaxRetries:
		return "PENDING, and nothing can fetch it"
	case l.Status.Terminal() != (l.TerminalAt != nil), l.Status.Terminal() != (l.Resolution != ""):
		return fmt.Sprintf("%s, %q since %v", l.Status, l.Resolution, l.TerminalAt)
	case (l.Status == Retrying) != (l.Token != uuid.Nil), (l.Status == Retrying) != (l.LeaseUntil != nil):
		return fmt.Sprintf("%s with the token %s", l.Status, l.Token)
	case l.Status == Dead && l.Resolution == Exhausted && l.RetryCount < l.MaxRetries:
		return "exhausted with retries left"
	case l.Status != Pending && l.NextRetryAt != nil:
		return fmt.Sprintf("%s with a next retry", l.Status)
	}
	return ""
}

// edgeOf returns the edge that a pointFault took. One trigger stands for another where a rule
// decides which of them applies.
func edgeOf(before, after *Letter, on Trigger) (Edge, bool) {
	switch {
	case on == RetryFailed && after.Status == Dead:
		on = LastFailed
	case on == ForcedClaim && before.Status == Pending:
		on = Claimed
	}
	e := Edge{before.Status, after.Status, on}
	return e, slices.Contains(Edges, e)
}

// start returns a new letter.
func start(source Source, retries int) Letter {
	p := DefaultPolicy
	return New(Letter{Source: source, OriginalTopic: "t", Failure: Failure{Message: "m"}, MaxRetries: retries}, uuid.New(),
		&p, testMoment())
}

// step is what happened to a letter in explore.
type step struct {
	deed          deed
	before, after Letter
	edge          Edge
}

// explore visits all states that letters with few retries can reach. A transition that panics
// because the table does not contain it counts as rejected.
func explore(t *testing.T) (steps []step, illegal int) {
	t.Helper()
	type place struct {
		source     Source
		status     Status
		why        Resolution
		count, max int
	}
	seen := map[place]bool{}
	var queue []Letter
	visit := func(l Letter) {
		at := place{l.Source, l.Status, l.Resolution, l.RetryCount, l.MaxRetries}
		if l.MaxRetries <= 4 && !seen[at] {
			seen[at] = true
			queue = append(queue, l)
		}
	}
	try := func(d deed, l Letter) (after *Letter) {
		defer func() {
			if wrong := recover(); wrong != nil {
				_ = wrong.(*IllegalEdgeError) //nolint:forcetypeassert // any other panic fails the test
				after = nil
				illegal++
			}
		}()
		return d.apply(l)
	}
	for _, source := range []Source{FromKafka, FromSaga, FromWebhook} {
		for retries := range 4 {
			visit(start(source, retries))
		}
	}
	for len(queue) > 0 {
		l := queue[0]
		queue = queue[1:]
		if why := broken(&l); why != "" {
			t.Fatalf("%s: %+v", why, l)
		}
		for _, d := range deeds() {
			if after := try(d, l); after != nil && !reflect.DeepEqual(*after, l) {
				e, _ := edgeOf(&l, after, d.on)
				steps = append(steps, step{d, l, *after, e})
				visit(*after)
			}
		}
	}
	return steps, illegal
}

func TestEveryMoveIsAnEdgeAndEveryEdgeIsTaken(t *testing.T) { //nolint:paralleltest // another test changes the table
	taken := map[Edge]bool{}
	steps, illegal := explore(t)
	if illegal > 0 {
		t.Errorf("%d moves were not in the table", illegal)
	}
	for _, s := range steps {
		taken[s.edge] = true
		if s.deed.name == "forced to fail" || s.deed.name == "withdrawn by force" {
			if s.after.Status != Dead {
				t.Errorf("%s leaves a letter %s", s.deed.name, s.after.Status)
			}
		}
		stays := s.before.Status == s.after.Status && (s.deed.on == SourceGaveUp || s.deed.on == SourceGoesOn)
		if !slices.Contains(Edges, s.edge) && !stays {
			t.Errorf("%s moved %s %s to %s %s: there is no such edge", s.deed.name, s.before.Status, s.before.Resolution, s.after.Status, s.after.Resolution)
		}
	}
	for _, e := range Edges {
		if !taken[e] {
			t.Errorf("nothing goes from %s to %s when %s", e.From, e.To, e.On)
		}
	}
}

// A rule that changes letters without consulting the table would take an edge that was removed.
func TestNothingTakesAnEdgeThatIsRemoved(t *testing.T) { //nolint:paralleltest // it changes the table
	all := Edges
	defer func() { Edges = all }()
	for i, e := range all {
		Edges = slices.Delete(slices.Clone(all), i, i+1)
		steps, _ := explore(t)
		for _, s := range steps {
			if s.edge == e {
				t.Errorf("%s: %s to %s without the edge", s.deed.name, s.before.Status, s.after.Status)
				break
			}
		}
	}
}

func TestFromListsTheStatusesThatATriggerLeaves(t *testing.T) { //nolint:paralleltest // another test changes the table
	for _, tt := range []struct {
		on   []Trigger
		want []Status
	}{
		{[]Trigger{Claimed}, []Status{Pending}},
		{[]Trigger{ForcedClaim}, []Status{Dead}},
		{[]Trigger{Claimed, ForcedClaim}, []Status{Pending, Dead}},
		{[]Trigger{Acked, RetryFailed, RetryWithdraw, LastFailed}, []Status{Retrying}},
		{[]Trigger{Restore}, []Status{Resolved, Dead}},
		{[]Trigger{SourceGone}, []Status{Pending, Retrying}},
		{[]Trigger{"nobody's"}, nil},
		{nil, nil},
	} {
		if got := From(tt.on...); !slices.Equal(got, tt.want) {
			t.Errorf("%v leaves %v, want %v", tt.on, got, tt.want)
		}
	}
}

func TestNoLifeLeavesALetterThatNothingCanFetch(t *testing.T) {
	t.Parallel()
	all := deeds()
	rapid.Check(t, func(t *rapid.T) {
		l := start(rapid.SampledFrom(Sources).Draw(t, "source"), rapid.IntRange(0, 5).Draw(t, "retries"))
		for range rapid.IntRange(1, 40).Draw(t, "deeds") {
			before := l
			if rapid.Bool().Draw(t, "edit") {
				edited, err := applied(l, EditRequested{Edit{MaxRetries: new(rapid.IntRange(0, 6).Draw(t, "max"))}}, testMoment())
				if err == nil {
					l = edited
				}
			}
			if after := rapid.SampledFrom(all).Draw(t, "deed").apply(l); after != nil {
				l = *after
			}
			// An edit may give it more retries.
			exhausted := l.Resolution == Exhausted && before.Resolution == Exhausted && l.Status == Dead
			if why := broken(&l); why != "" && !exhausted {
				t.Fatalf("%s: %+v", why, l)
			}
		}
	})
}

func TestAFinishedDrive(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		count, max int
		forced     bool
		was        Resolution
		result     Result
		status     Status
		why        Resolution
		after      int
	}{
		{"first failure goes back", 0, 3, false, "", Result{Outcome: FailedDrive}, Pending, "", 1},
		{"last failure is dead", 2, 3, false, "", Result{Outcome: FailedDrive}, Dead, Exhausted, 3},
		{"uncertain counts", 1, 3, false, "", Result{Outcome: Uncertain}, Pending, "", 2},
		{"acknowledged counts nothing", 1, 3, false, "", Result{Outcome: Acknowledged}, Resolved, Redriven, 1},
		{"withdrawn counts nothing", 1, 3, false, "", Result{Outcome: Withdrawn}, Pending, "", 1},
		{"accepted stays", 1, 3, false, "", Result{Accepted: true, Outcome: Uncertain}, Retrying, "", 1},
		{"forced and failed stays dead", 0, 3, true, Discarded, Result{Outcome: FailedDrive}, Dead, Discarded, 1},
		{"forced and exhausted", 3, 3, true, Exhausted, Result{Outcome: FailedDrive}, Dead, Exhausted, 3},
		{"forced poison stays poison", 3, 3, true, Poison, Result{Outcome: FailedDrive}, Dead, Poison, 3},
		{"forced and withdrawn", 0, 3, true, Poison, Result{Outcome: Withdrawn}, Dead, Poison, 0},
		{"forced and acknowledged", 3, 3, true, Exhausted, Result{Outcome: Acknowledged}, Resolved, Redriven, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := Drive{Letter: Letter{Source: FromKafka, Status: Retrying, RetryCount: tt.count, MaxRetries: tt.max},
				Forced: tt.forced, Was: tt.was, Number: 7}
			p := DefaultPolicy
			f := finish(&d, tt.result, &p, testMoment())
			if f.Status != tt.status || f.Resolution != tt.why || f.RetryCount != tt.after || f.Attempt.Number != 7 {
				t.Errorf("%s %s after %d, want %s %s after %d", f.Status, f.Resolution, f.RetryCount, tt.status, tt.why, tt.after)
			}
			if (f.NextRetryAt != nil) != (tt.status == Pending) || (f.TerminalAt != nil) != tt.status.Terminal() {
				t.Errorf("next %v, terminal %v", f.NextRetryAt, f.TerminalAt)
			}
		})
	}
}

func TestWhatAStatusForbidsIsAConflict(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy
	for _, status := range Statuses {
		l := Letter{Status: status, MaxRetries: 3}
		for name, err := range map[string]error{
			VerbRequeue: refusal(l, RequeueRequested{Policy: &p}), VerbDiscard: refusal(l, DiscardRequested{}),
			VerbResolve: refusal(l, ResolveRequested{}), VerbDelete: l.Deletable(),
		} {
			allowed := slices.Contains(l.Actions(), name)
			if (err == nil) != allowed || err != nil && fault.KindOf(err) != fault.Conflict {
				t.Errorf("%s %s: %v; allowed: %v", name, status, err, allowed)
			}
		}
	}
	l := Letter{Status: Pending, RetryCount: 2, MaxRetries: 3}
	if err := refusal(l, EditRequested{Edit{MaxRetries: new(2)}}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a bound that leaves no retry: %v", err)
	}
}
