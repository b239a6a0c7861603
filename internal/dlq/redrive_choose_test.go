package dlq

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/skald-saga/skald/internal/audit/operator"
)

func TestTheAllowanceOfARate(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) *time.Time { return new(testNow.Add(-d)) }
	for _, tt := range []struct {
		name  string
		rate  float64
		left  float64
		since *time.Time
		want  float64
	}{
		{"it begins with one", 50, 0, nil, 1},
		{"it fills at its rate", 50, 3, ago(100 * time.Millisecond), 8},
		{"it holds one second's worth", 50, 3, ago(time.Hour), 50},
		{"a slow one holds one letter", 0.1, 0, ago(time.Hour), 1},
		{"a slow one fills slowly", 0.1, 0, ago(5 * time.Second), 0.5},
		{"a clock that goes back takes nothing", 50, 3, ago(-time.Minute), 3},
		{"its rate was higher before", 5, 40, ago(0), 5},
	} {
		if got := (&Redrive{Rate: tt.rate}).Allowance(tt.left, tt.since, testNow); got != tt.want {
			t.Errorf("%s: %g, want %g", tt.name, got, tt.want)
		}
	}
}

// However often letters are taken, a redrive stays below its rate.
func TestNoMoreLettersThanTheRateAllows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := Redrive{Rate: rapid.Float64Range(0.1, 5000).Draw(t, "rate")}
		now, left := testNow, 0.0
		var since *time.Time
		taken := 0
		for range rapid.IntRange(1, 50).Draw(t, "calls") {
			allowance := r.Allowance(left, since, now)
			n := r.Grant(rapid.IntRange(0, 500).Draw(t, "limit"), allowance, 0)
			if float64(n) > allowance {
				t.Fatalf("%d are taken of %g", n, allowance)
			}
			taken += n
			left, since = allowance-float64(n), new(now)
			now = now.Add(time.Duration(rapid.IntRange(0, 3_000_000).Draw(t, "pause")) * time.Microsecond)
		}
		if most := max(r.Rate, 1) + r.Rate*now.Sub(testNow).Seconds() + 1; float64(taken) > most {
			t.Fatalf("%d were taken in %s at %g a second", taken, now.Sub(testNow), r.Rate)
		}
	})
}

func TestHowManyLettersMayBeTaken(t *testing.T) {
	t.Parallel()
	canary := &Canary{Count: 10}
	for _, tt := range []struct {
		name      string
		r         Redrive
		limit     int
		allowance float64
		busy      int64
		want      int
	}{
		{"as many as the bucket has", Redrive{}, 500, 12.9, 0, 12},
		{"as many as are asked for", Redrive{}, 5, 12.9, 1000, 5},
		{"none in an empty bucket", Redrive{}, 500, 0.9, 0, 0},
		{"the canary", Redrive{Canary: canary, Matched: 100}, 500, 500, 0, 10},
		{"the rest of the canary", Redrive{Canary: canary, Matched: 100, Done: 4}, 500, 500, 3, 3},
		{"all of the canary is on its way", Redrive{Canary: canary, Matched: 100}, 500, 500, 10, 0},
		{"more than the canary was skipped", Redrive{Canary: canary, Matched: 100, Skipped: 40}, 500, 500, 0, 0},
		{"the canary has passed", Redrive{Canary: canary, CanaryOK: true, Matched: 100}, 500, 500, 90, 500},
		{"what it stops on", Redrive{Concurrency: 1, StopOn: StopOn{Failures: 4}}, 500, 500, 1, 3},
		{"both", Redrive{Concurrency: 1, Matched: 100, Canary: canary, StopOn: StopOn{Failures: 4}}, 500, 500, 0, 4},
	} {
		if got := tt.r.Grant(tt.limit, tt.allowance, tt.busy); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
	for _, tt := range []struct {
		r    Redrive
		want bool
	}{{Redrive{}, false}, {Redrive{Canary: canary}, true}, {Redrive{Canary: canary, CanaryOK: true}, false},
		{Redrive{StopOn: StopOn{Failures: 1}}, true}} {
		if got := tt.r.Bounded(); got != tt.want {
			t.Errorf("%+v is bounded by what is on its way: %t, want %t", tt.r, got, tt.want)
		}
	}
}

// waiting makes candidates from words: a status (P, D, R, X resolved, - gone), then a key or
// nothing, then what the candidate waits for.
func waiting(words string) (all []Candidate) {
	statuses := map[byte]Status{'P': Pending, 'D': Dead, 'R': Retrying, 'X': Resolved, '-': ""}
	for i, word := range strings.Fields(words) {
		c := Candidate{Seq: int64(i + 1), LetterID: uuid.UUID{byte(i + 1)}, Status: statuses[word[0]], Topic: "t",
			To: Target{Kind: ToKafka}}
		key, behind, _ := strings.Cut(word[1:], "<")
		if key == "http" {
			c.To.Kind, key = ToHTTP, ""
		}
		if key != "" {
			c.Key = []byte(key)
		}
		c.Behind = ItemState(behind)
		all = append(all, c)
	}
	return all
}

func TestChoosingLetters(t *testing.T) { //nolint:paralleltest // another test changes the table
	const (
		gone    = "it was archived or deleted"
		failed  = "an older dead letter with the same key has failed"
		blocked = "an older dead letter with the same key is open"
	)
	for _, tt := range []struct {
		name, letters string
		n             int
		order         Order
		force         bool
		keys          map[string]ItemState
		taken         []int64
		skipped       map[int64]string
	}{
		{name: "the first ones", letters: "P P P P", n: 2, taken: []int64{1, 2}},
		{name: "fewer than may be", letters: "P P", n: 5, taken: []int64{1, 2}},
		{name: "none", letters: "", n: 5},
		{name: "what has moved on is skipped", letters: "P R X D - P", n: 9, taken: []int64{1, 6}, skipped: map[int64]string{2: "it is RETRYING", 3: "it is RESOLVED", 4: "it is DEAD", 5: gone}},
		{name: "dead ones by force", letters: "P D R", n: 9, force: true, taken: []int64{1, 2}, skipped: map[int64]string{3: "it is RETRYING"}},
		{name: "nobody goes on behind the last one taken", letters: "P - P", n: 1, taken: []int64{1}},
		{name: "out of reach", letters: "P Phttp P", n: 9, taken: []int64{1, 3}, skipped: map[int64]string{2: "target kind http is not configured on this server"}},
		{name: "keys do not count where letters are not ordered", letters: "Pa Pa Pb", n: 9, taken: []int64{1, 2, 3}},
		{name: "the older one comes first", letters: "Pa<WAITING Pa<TAKEN P", n: 9, taken: []int64{3}},
		{name: "the older one has failed", letters: "Pa<FAILED P", n: 9, taken: []int64{2}, skipped: map[int64]string{1: failed}},
		{name: "the older one is nobody's", letters: "Pa<- P", n: 9, taken: []int64{2}, skipped: map[int64]string{1: blocked}},
		{name: "the older one was skipped", letters: "Pa<SKIPPED", n: 9, skipped: map[int64]string{1: blocked}},
		{name: "the older one is done, and open again", letters: "Pa<DONE", n: 9, skipped: map[int64]string{1: blocked}},
		{name: "one of each key", letters: "Pa Pa Pb Pa Pb P P", n: 9, order: PerKey, taken: []int64{1, 3, 6, 7}},
		{name: "a key on its way", letters: "Pa Pb", n: 9, order: PerKey, keys: map[string]ItemState{"a": ItemTaken}, taken: []int64{2}},
		{name: "a key that has failed", letters: "Pa Pb Pa", n: 9, order: PerKey, keys: map[string]ItemState{"a": ItemFailed}, taken: []int64{2}, skipped: map[int64]string{1: failed, 3: failed}},
		{name: "what is dead blocks no key", letters: "Da Pa", n: 9, order: PerKey, taken: []int64{2}, skipped: map[int64]string{1: "it is DEAD"}},
		{name: "its own older letter says more than the key", letters: "Pa<-", n: 9, order: PerKey, keys: map[string]ItemState{"a": ItemTaken}, skipped: map[int64]string{1: blocked}},
	} {
		r := Redrive{Order: tt.order, Force: tt.force}
		keys := Keys{}
		for key, is := range tt.keys {
			of, _ := KeyOf("t", []byte(key))
			keys.Note(of, is)
		}
		got := r.Choose(waiting(tt.letters), keys, Routes{Kinds: []TargetKind{ToKafka}}, tt.n)
		var taken []int64
		for i := range got.Taken {
			taken = append(taken, got.Taken[i].Seq)
		}
		var skipped map[int64]string
		for _, i := range got.Skipped {
			if skipped == nil {
				skipped = map[int64]string{}
			}
			skipped[i.Seq] = i.Detail
			if i.State != ItemSkipped {
				t.Errorf("%s: letter %d becomes %s", tt.name, i.Seq, i.State)
			}
		}
		if diff := cmp.Diff(tt.taken, taken) + cmp.Diff(tt.skipped, skipped); diff != "" {
			t.Errorf("%s: taken, skipped (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestAKeyThatHasFailedStaysSo(t *testing.T) {
	t.Parallel()
	a, _ := KeyOf("t", []byte("a"))
	other, _ := KeyOf("u", []byte("a"))
	empty, has := KeyOf("t", []byte{})
	if _, none := KeyOf("t", nil); none || !has || a == other {
		t.Errorf("an empty key is one: %t; none is none: %t; topics tell keys apart: %t", has, !none, a != other)
	}
	keys := Keys{}
	for _, is := range []ItemState{ItemTaken, ItemFailed, ItemTaken} {
		keys.Note(a, is)
	}
	keys.Note(empty, ItemTaken)
	if diff := cmp.Diff(Keys{a: ItemFailed, empty: ItemTaken}, keys, cmp.AllowUnexported(Key{})); diff != "" {
		t.Error(diff)
	}
}

// At most one letter of each key is taken, and nothing is lost: a letter that is neither taken nor
// skipped waits for an older one, or is behind the last one taken.
func TestWhatIsChosenIsChosenOnce(t *testing.T) { //nolint:paralleltest // another test changes the table
	rapid.Check(t, func(t *rapid.T) {
		var words []string
		for range rapid.IntRange(0, 30).Draw(t, "letters") {
			words = append(words, rapid.SampledFrom([]string{"P", "P", "D", "R", "-"}).Draw(t, "status")+
				rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "key")+
				rapid.SampledFrom([]string{"", "", "", "<WAITING", "<TAKEN", "<FAILED", "<-"}).Draw(t, "behind"))
		}
		all := waiting(strings.Join(words, " "))
		n := rapid.IntRange(1, 30).Draw(t, "n")
		r := Redrive{Order: rapid.SampledFrom([]Order{Oldest, PerKey}).Draw(t, "order"), Force: rapid.Bool().Draw(t, "force")}
		got := r.Choose(all, Keys{}, Routes{Kinds: []TargetKind{ToKafka}}, n)
		if len(got.Taken) > n {
			t.Fatalf("%d of %d are taken", len(got.Taken), n)
		}
		seen, keys := map[int64]bool{}, map[string]bool{}
		for i := range got.Taken {
			c := &got.Taken[i]
			if c.Behind != "" || c.Status != Pending && !r.Force || r.Order == PerKey && c.Key != nil && keys[string(c.Key)] {
				t.Fatalf("%+v is taken", c)
			}
			seen[c.Seq], keys[string(c.Key)] = true, true
		}
		for _, s := range got.Skipped {
			if seen[s.Seq] || s.Detail == "" {
				t.Fatalf("letter %d is taken and skipped, because %q", s.Seq, s.Detail)
			}
			seen[s.Seq] = true
		}
		for i := range all {
			c := &all[i]
			if r.Order == PerKey && c.Key != nil && c.Status == Retrying { // since before it was collected
				keys[string(c.Key)] = true
			}
			waits := c.Behind == ItemWaiting || c.Behind == ItemTaken || r.Order == PerKey && keys[string(c.Key)]
			if !seen[c.Seq] && !waits && len(got.Taken) < n {
				t.Fatalf("%+v is neither taken nor skipped, and waits for nobody", c)
			}
		}
	})
}

func TestActionsOfRedrives(t *testing.T) { //nolint:paralleltest // another test changes the table
	p := DefaultPolicy
	for _, source := range []Source{FromKafka, FromSaga} {
		for _, status := range append(slices.Clone(Statuses), "") {
			for _, action := range RedriveActions {
				if action == BulkRetry {
					continue
				}
				r := Redrive{ID: uuid.UUID{9}, Action: action, Actor: "ann", Reason: "clean up"}
				l := Letter{ID: uuid.UUID{1}, TenantID: uuid.UUID{2}, Source: source, Status: status, MaxRetries: 3, Version: 4}
				if status == Resolved {
					l.Resolution = Redriven
				}
				v := r.Act(17, &l, &p, testMoment())
				name := fmt.Sprintf("%s of a %s letter that is %q", action, source, status)
				workable := slices.Contains(action.workable(false), status) && (action == BulkRequeue || !l.Waited())
				if (v.State == ItemDone) != workable || (v.State == ItemSkipped) == workable || (v.Detail == "") != workable {
					t.Errorf("%s: %s, %q; it can be done: %t", name, v.State, v.Detail, workable)
				}
				if v.Seq != 17 || v.LetterID != l.ID || v.Deleted && (action != BulkDelete || !workable) {
					t.Errorf("%s: item %d of %s, deleted %t", name, v.Seq, v.LetterID, v.Deleted)
				}
				if workable && !v.Deleted && (v.After.Version != 5 || v.After.Status == status) {
					t.Errorf("%s: %s at version %d", name, v.After.Status, v.After.Version)
				}
				if v.State != ItemDone {
					continue
				}
				told := r.AuditLetter(&v, &l, uuid.UUID{7})
				want := told
				want.ID, want.Actor, want.Verb = uuid.UUID{7}, "ann", string(action)
				want.Kind, want.At = operator.DeadLetter, testNow
				if diff := cmp.Diff(want, told); diff != "" {
					t.Errorf("%s: on record (-want +got):\n%s", name, diff)
				}
				var detail map[string]any
				if err := json.Unmarshal(told.Detail, &detail); err != nil || (detail["redrive_id"] == r.ID.String()) == v.Deleted {
					t.Errorf("%s: detail %s, %v", name, told.Detail, err)
				}
			}
		}
	}
}

func TestAHaltIsOnRecord(t *testing.T) { //nolint:paralleltest // another test changes the table
	r := redriveIn(RedriveRunning)
	r.Done, r.Failed = 7, 3
	after, changed := r.Judge(2, testNow)
	told := after.AuditHalt(uuid.UUID{7})
	want := told
	want.ID, want.Verb, want.Subject, want.At = uuid.UUID{7}, VerbHalt, r.ID.String(), testNow
	if diff := cmp.Diff(want, told); diff != "" || !changed {
		t.Errorf("changed %t (-want +got):\n%s", changed, diff)
	}
	if diff := cmp.Diff(`{"bounced":0,"failed":3,"halt_reason":"failures","left":90,"tried":10}`, string(told.Detail)); diff != "" {
		t.Error(diff)
	}
}

// A retry leaves letters to a redrive that has collected them and is running; every other action
// takes them.
func TestWhichLettersARedriveLeavesToAnother(t *testing.T) {
	t.Parallel()
	for _, state := range RedriveStates {
		for _, begun := range []*time.Time{nil, &testNow} {
			for action := range actionTriggers {
				other := Redrive{State: state, StartedAt: begun}
				want := action == BulkRetry && begun != nil &&
					(state == RedrivePending || state == RedriveRunning || state == RedrivePaused)
				if got := (&Redrive{Action: action}).Yields(&other); got != want {
					t.Errorf("%s beside one that is %s, begun %v: %v", action, state, begun != nil, got)
				}
			}
		}
	}
}
