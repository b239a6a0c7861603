package dlq

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
)

// happenings are the events that may move a redrive, named by the words of the stories below.
var happenings = map[string]func(Redrive) (Redrive, bool){
	"pause":   byOperator(PauseRedrive, "ann"),
	"resume":  byOperator(ResumeRedrive, "ann"),
	"cancel":  byOperator(CancelRedrive, "ann"),
	"approve": byOperator(ApproveRedrive, "bob"),
	"begin":   func(r Redrive) (Redrive, bool) { return r.Begun("", testNow) },
	"through": func(r Redrive) (Redrive, bool) { r.Done = r.Matched; return r.Judge(0, testNow) },
	"fail":    func(r Redrive) (Redrive, bool) { r.Failed += 3; return r.Judge(0, testNow) },
	"watch":   func(r Redrive) (Redrive, bool) { return r.Judge(0, testNow.Add(time.Hour)) },
	"nothing": func(r Redrive) (Redrive, bool) { return r.Judge(1, testNow) },
}

// byWhat returns the edge that an event stands for.
var byWhat = map[string]RedriveVerb{
	"pause": PauseRedrive, "resume": ResumeRedrive, "cancel": CancelRedrive, "approve": ApproveRedrive,
	"begin":   BeginRedrive,
	"through": CompleteRedrive, "fail": HaltRedrive,
}

func byOperator(verb RedriveVerb, who string) func(Redrive) (Redrive, bool) {
	return func(r Redrive) (Redrive, bool) {
		after, err := r.Moved(verb, who, testNow)
		return after, err == nil
	}
}

func redriveIn(s RedriveState) Redrive {
	r := Redrive{State: s, Action: BulkRetry, Actor: "ann", Version: 7, Gathered: true, Matched: 100, Rate: 10,
		StopOn: StopOn{Failures: 3}}
	if s == RedriveHalted {
		r.HaltReason, r.LastHalt, r.Failed = "failures", "failures", 3
	}
	if s.Terminal() {
		r.EndedAt = &testNow
	}
	return r
}

func TestStoriesOfRedrives(t *testing.T) { //nolint:paralleltest // another test changes the table
	for _, tt := range []struct {
		name  string
		start RedriveState
		story []string
		want  RedriveState
	}{
		{"it runs through", RedrivePending, []string{"begin", "through"}, RedriveCompleted},
		{"somebody else agrees", AwaitingApproval, []string{"approve", "begin", "through"}, RedriveCompleted},
		{"nobody agrees", AwaitingApproval, []string{"cancel"}, RedriveCanceled},
		{"it is paused before it begins", RedrivePending, []string{"pause", "resume", "begin"}, RedriveRunning},
		{"it is paused while it runs", RedrivePending, []string{"begin", "pause", "resume", "begin", "through"}, RedriveCompleted},
		{"too much fails", RedrivePending, []string{"begin", "fail"}, RedriveHalted},
		{"it goes on after a halt, and counts from there", RedrivePending, []string{"begin", "fail", "resume", "begin", "nothing"}, RedriveRunning},
		{"it halts once more", RedrivePending, []string{"begin", "fail", "resume", "begin", "fail"}, RedriveHalted},
		{"it is given up after a halt", RedrivePending, []string{"begin", "fail", "cancel"}, RedriveCanceled},
	} {
		r := redriveIn(tt.start)
		version := r.Version
		for _, word := range tt.story {
			after, moved := happenings[word](r)
			if moved != (word != "nothing") {
				t.Fatalf("%s: %s moves it from %s: %t", tt.name, word, r.State, moved)
			}
			if moved {
				version++
			}
			r = after
		}
		if r.State != tt.want || r.Version != version || r.State.Terminal() != (r.EndedAt != nil) ||
			r.State == RedriveHalted && r.HaltReason == "" {
			t.Errorf("%s: %+v; want %s at version %d", tt.name, r, tt.want, version)
		}
	}
}

// tried applies an event. If it panics because the table does not contain its transition, it counts
// as rejected.
func tried(word string, r Redrive) (after Redrive, moved, panicked bool) {
	defer func() {
		if recover() != nil {
			after, moved, panicked = r, false, true
		}
	}()
	after, moved = happenings[word](r)
	return after, moved, false
}

func TestEveryMoveOfARedriveIsAnEdge(t *testing.T) { //nolint:paralleltest // another test changes the table
	taken := map[RedriveEdge]bool{}
	for _, state := range RedriveStates {
		for word, verb := range byWhat {
			before := redriveIn(state)
			after, moved, panicked := tried(word, before)
			if panicked {
				t.Errorf("%s of a redrive that is %s is not in the table", word, state)
			}
			if e := (RedriveEdge{state, after.State, verb}); moved {
				taken[e] = true
				if !slices.Contains(RedriveEdges, e) || after.Version != before.Version+1 {
					t.Errorf("%s: %s to %s at version %d", word, state, after.State, after.Version)
				}
			} else if diff := cmp.Diff(before.State, after.State); diff != "" {
				t.Errorf("%s of a redrive that is %s is refused, and changes it:\n%s", word, state, diff)
			}
		}
	}
	for _, e := range RedriveEdges {
		if !taken[e] {
			t.Errorf("nothing takes %v", e)
		}
	}
}

func TestNoRedriveTakesAnEdgeThatIsRemoved(t *testing.T) { //nolint:paralleltest // it changes the table
	all := RedriveEdges
	defer func() { RedriveEdges = all }()
	for i, e := range all {
		RedriveEdges = slices.Delete(slices.Clone(all), i, i+1)
		for word, verb := range byWhat {
			if verb != e.On {
				continue
			}
			if after, moved, _ := tried(word, redriveIn(e.From)); moved {
				t.Errorf("%s moves a redrive from %s to %s without the edge", word, e.From, after.State)
			}
		}
		r := redriveIn(e.From)
		if slices.Contains(RedriveVerbs, e.On) && slices.Contains(r.Actions(), string(e.On)) {
			t.Errorf("%s is offered to a redrive that is %s without the edge", e.On, e.From)
		}
	}
}

func TestWhatOperatorsMayNotDoToARedrive(t *testing.T) { //nolint:paralleltest // another test changes the table
	for _, state := range RedriveStates {
		r := redriveIn(state)
		for _, verb := range RedriveVerbs {
			_, err := r.Moved(verb, "bob", testNow)
			if allowed := slices.Contains(r.Actions(), string(verb)); (err == nil) != allowed || err != nil &&
				!fault.IsCode(err, CodeRedriveConflict) {
				t.Errorf("%s while %s: %v; allowed: %t", verb, state, err, allowed)
			}
		}
		for _, own := range []RedriveVerb{BeginRedrive, HaltRedrive, CompleteRedrive} {
			if _, err := r.Moved(own, "bob", testNow); !fault.IsCode(err, CodeRedriveConflict) {
				t.Errorf("an operator may %s a redrive that is %s: %v", own, state, err)
			}
		}
	}
	asked := redriveIn(AwaitingApproval)
	if _, err := asked.Moved(ApproveRedrive, "ann", testNow); !fault.IsCode(err, CodeSelfApproval) {
		t.Errorf("who asked approves: %v", err)
	}
	if got, err := asked.Moved(ApproveRedrive, "bob", testNow); err != nil || got.ApprovedBy != "bob" {
		t.Errorf("somebody else approves: %v, by %q", err, got.ApprovedBy)
	}
}

func TestARedriveBegins(t *testing.T) { //nolint:paralleltest // another test changes the table
	first := testNow.Add(-time.Hour)
	for _, state := range RedriveStates {
		r := redriveIn(state)
		got, begins := r.Begun("", testNow)
		if begins != (state == RedrivePending) || r.Active() != (state == RedrivePending || state == RedriveRunning) {
			t.Errorf("%s: begins %t, active %t", state, begins, r.Active())
		}
		if begins && (!got.StartedAt.Equal(testNow) || !got.ProgressAt.Equal(testNow) || !got.UpdatedAt.Equal(testNow)) {
			t.Errorf("it begins at %v, %v, %v", got.StartedAt, got.ProgressAt, got.UpdatedAt)
		}
	}
	again := redriveIn(RedrivePending)
	again.StartedAt = &first
	if got, _ := again.Begun("", testNow); !got.StartedAt.Equal(first) {
		t.Errorf("one that goes on began at %v, and says %v", first, got.StartedAt)
	}
}

func TestPagesOfARedrivesLetters(t *testing.T) {
	t.Parallel()
	filter := &Filter{Topic: "t"}
	for _, tt := range []struct {
		name          string
		r             Redrive
		size          int64
		found, stored int64
		last          bool
	}{
		{"a full page", Redrive{Filter: filter}, 10, 10, 10, false},
		{"a full page of which some were there", Redrive{Filter: filter}, 10, 10, 3, false},
		{"less than a page", Redrive{Filter: filter}, 10, 9, 9, true},
		{"nothing", Redrive{Filter: filter}, 10, 0, 0, true},
		{"nearly as many as it may have", Redrive{Filter: filter, Max: 25, Matched: 20}, 5, 5, 4, false},
		{"as many as it may have", Redrive{Filter: filter, Max: 25, Matched: 20}, 5, 5, 5, true},
		{"had them all", Redrive{Filter: filter, Max: 20, Matched: 20}, 0, 0, 0, true},
		{"ids come at once", Redrive{IDs: make([]uuid.UUID, 12)}, 12, 11, 11, true},
		{"ids up to its bound", Redrive{IDs: make([]uuid.UUID, 12), Max: 5}, 5, 5, 5, true},
	} {
		size := tt.r.PageSize(10)
		if last := tt.r.GatheredBy(size, tt.found, tt.stored); size != tt.size || last != tt.last {
			t.Errorf("%s: a page of %d, the last: %t; want %d, %t", tt.name, size, last, tt.size, tt.last)
		}
	}
}

// A redrive that was canceled after a halt still shows why it had halted.
func TestACanceledRedriveSaysWhyItHadHalted(t *testing.T) { //nolint:paralleltest // another test changes the table
	halted := Redrive{State: RedriveHalted, HaltReason: "failures", LastHalt: "failures"}
	canceled, err := halted.Moved(CancelRedrive, "ada", time.Unix(0, 0))
	if err != nil || canceled.State != RedriveCanceled || canceled.HaltReason != "failures" ||
		canceled.LastHalt != "failures" {
		t.Errorf("canceled: %+v, %v", canceled, err)
	}
	resumed, err := halted.Moved(ResumeRedrive, "ada", time.Unix(0, 0))
	if err != nil || resumed.HaltReason != "" || resumed.LastHalt != "failures" {
		t.Errorf("resumed: %+v, %v", resumed, err)
	}
}
