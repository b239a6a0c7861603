package ledger

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// x and c build a correct execute and a correct compensate of saga s1; edit them to build a
// scenario. Seq and Time follow from their position in it.
func x(step string, edit ...func(*Entry)) Entry { return entry(step, Execute, edit) }
func c(step string, edit ...func(*Entry)) Entry { return entry(step, Compensate, edit) }

func entry(step string, action Action, edit []func(*Entry)) Entry {
	e := Entry{
		Saga: "s1", Step: step, Action: action, Attempt: 1, Fence: 1,
		Key: fmt.Sprintf("s1/%s/%s", step, action), BodySHA256: step + string(action),
		Effect: Applied, Reply: Sent, Status: http.StatusOK,
	}
	for _, f := range edit {
		f(&e)
	}
	return e
}

func attempt(n int) func(*Entry)   { return func(e *Entry) { e.Attempt = n } }
func key(k string) func(*Entry)    { return func(e *Entry) { e.Key = k } }
func body(sha string) func(*Entry) { return func(e *Entry) { e.BodySHA256 = sha } }
func fence(n int64) func(*Entry)   { return func(e *Entry) { e.Fence = n } }
func status(n int) func(*Entry)    { return func(e *Entry) { e.Status = n } }
func later(d time.Duration) func(*Entry) {
	return func(e *Entry) { e.Time = noon.Add(d) }
}
func ofSaga(id string) func(*Entry) {
	return func(e *Entry) { e.Saga, e.Key = id, id+e.Key }
}
func dup(e *Entry)     { e.Effect = Dup }
func nothing(e *Entry) { e.Effect = None }
func lost(e *Entry)    { e.Reply = Dropped }
func delayed(e *Entry) { e.Reply = Delayed }
func garbled(e *Entry) { e.Reply = Garbage }
func failed(e *Entry)  { e.Effect, e.Status = None, http.StatusInternalServerError }
func refused(e *Entry) { e.Effect, e.Status = RefusedBusiness, http.StatusConflict }
func tooLate(e *Entry) { e.Effect, e.Status = RefusedLate, http.StatusConflict }

func story(entries ...Entry) []Entry {
	for i := range entries {
		entries[i].Seq = int64(i) + 1
		if entries[i].Time.IsZero() {
			entries[i].Time = noon.Add(time.Duration(i) * time.Second)
		}
	}
	return entries
}

func ended(o Outcome) map[string]SagaEnd {
	return map[string]SagaEnd{"s1": {Outcome: o, Steps: []string{"a", "b", "c"}}}
}

var withoutUndoOfB = map[string]SagaEnd{
	"s1": {Outcome: Compensated, Steps: []string{"a", "b", "c"}, WithoutUndo: []string{"b"}},
}

// ahead is an end of a saga in which only step c waits for the disk.
func ahead(o Outcome) map[string]SagaEnd {
	return map[string]SagaEnd{"s1": {Outcome: o, Steps: []string{"a", "b", "c"}, Ahead: []string{"a", "b"}}}
}

func TestHonestLedgersHaveNoViolations(t *testing.T) {
	for _, tt := range []struct {
		name    string
		checker Checker
		want    map[string]SagaEnd
		entries []Entry
	}{
		{"three steps done at once", Checker{Calm: true, MaxExecutes: 1}, ended(Completed),
			story(x("a"), x("b"), x("c"))},
		{"a lost reply is asked for again", Checker{Calm: true}, ended(Completed),
			story(x("a", lost), x("a", attempt(2), dup), x("b"), x("c"))},
		{"a takeover repeats an answered call", Checker{}, ended(Completed),
			story(x("a"), x("a", attempt(2), dup, fence(2)), x("b", fence(2)), x("c", fence(2)))},
		{"failures before the work is done", Checker{Calm: true}, ended(Completed),
			story(x("a", failed), x("a", attempt(2), lost, nothing, status(0)), x("a", attempt(3)), x("b"), x("c"))},
		{"the last step is refused", Checker{Calm: true}, ended(Compensated),
			story(x("a"), x("b"), x("c", refused), c("b"), c("a"))},
		{"the first step is refused", Checker{Calm: true}, ended(Compensated), story(x("a", refused))},
		{"cancelled before the first call", Checker{}, ended(Compensated), nil},
		{"an unknown outcome is undone first", Checker{Calm: true}, ended(Compensated),
			story(x("a"), x("b", lost), c("b"), c("a"))},
		{"a refusal after an unknown outcome, and the step is undone first", Checker{Calm: true}, ended(Compensated),
			story(x("a"), x("b", failed), x("b", attempt(2), refused), c("b", nothing), c("a"))},
		{"a refusal after a call that was told to be patient", Checker{Calm: true}, ended(Compensated),
			story(x("a"), x("b", nothing, status(http.StatusTooManyRequests)), x("b", attempt(2), refused), c("a"))},
		{"an attempt sent once more, because the connection broke", Checker{Calm: true, MaxExecutes: 1}, ended(Completed),
			story(x("a", lost), x("a", dup), x("b"), x("c"))},
		{"an execute that never arrived is undone first", Checker{Calm: true}, ended(Compensated),
			story(x("a"), c("b", nothing), c("a"))},
		{"after a crash answered steps are called again", Checker{}, ahead(Completed), story(x("a"), x("b"),
			x("a", attempt(2), dup, fence(2)), x("b", attempt(2), dup, fence(2)), x("c", attempt(2), fence(2)))},
		{"or undone beyond what was called", Checker{}, ahead(Compensated),
			story(x("a", lost), c("c", nothing), c("b", nothing), c("a"))},
		{"an undo is retried until it is answered", Checker{Calm: true}, ended(Compensated),
			story(x("a"), x("b", refused), c("a", failed), c("a", lost, attempt(2)), c("a", attempt(3), dup))},
		{"a crash hid the refusal, and the step is undone", Checker{}, ended(Compensated),
			story(x("a"), x("b", refused), c("b", nothing), c("a"))},
		{"an answer that came slowly still counts", Checker{}, ended(Completed),
			story(x("a", delayed), x("b"), x("c"))},
		{"a step without undo stays", Checker{}, withoutUndoOfB, story(x("a"), x("b"), x("c", refused), c("a"))},
		{"an undo that gave up leaves effects, openly", Checker{}, ended(Dirty),
			story(x("a"), x("b"), x("c", refused), c("b", failed), c("b", attempt(2), failed))},
		{"an answer that came slowly was not waited for", Checker{Calm: true}, ended(Completed),
			story(x("a", delayed), x("a", attempt(2), dup), x("b"), x("c"))},
		{"a step that was only told to be patient is undone", Checker{Calm: true}, ended(Compensated),
			story(x("a"), x("b", nothing, status(http.StatusTooManyRequests)), c("b", nothing), c("a"))},
		{"an execute noticed after its undo on a calm day", Checker{Calm: true, Reorder: 2 * time.Second}, ended(Compensated),
			story(c("a", nothing), x("a", tooLate))},
		{"an execute that arrived after its undo and was decided before it", Checker{Reorder: 2 * time.Second},
			ended(Compensated), story(c("a"), x("a", delayed))},
		{"a call noticed after its successor", Checker{Reorder: 2 * time.Second}, ended(Completed),
			story(x("a", attempt(2)), x("a", dup), x("b"), x("c"))},
		{"an execute noticed after its undo", Checker{Reorder: 2 * time.Second}, ended(Compensated),
			story(x("a"), c("b", nothing), x("b", tooLate), c("a"))},
		{"calls listed in another order than they arrived", Checker{}, ended(Completed), func() []Entry {
			e := story(x("a"), x("b"), x("c"))
			slices.Reverse(e)
			return e
		}()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, v := range tt.checker.Check(tt.entries, tt.want) {
				t.Errorf("unjust: %s", v)
			}
		})
	}
}

// Each ledger breaks one promise. The first violation found must be the expected one, and
// violations of other kinds must be listed.
func TestEachBrokenPromiseIsReported(t *testing.T) {
	for _, tt := range []struct {
		name    string
		checker Checker
		want    map[string]SagaEnd
		entries []Entry
		found   []string // "invariant step: part of the detail"
	}{
		{"a saga nobody knows", Checker{}, map[string]SagaEnd{}, story(x("a")), []string{"I0 : unknown saga"}},
		{"a completed saga that was never called", Checker{}, ended(Completed), nil,
			[]string{"I2 a: never applied", "I2 b: never applied", "I2 c: never applied"}},
		{"a step left out", Checker{}, ended(Completed), story(x("a"), x("c")),
			[]string{"I3 c: before step b", "I2 b: never applied"}},
		{"a step applied twice", Checker{}, ended(Completed), story(x("a"), x("a", attempt(2)), x("b"), x("c")),
			[]string{"I2 a: applied 2 times"}},
		{"an effect that stays", Checker{}, ended(Compensated), story(x("a"), x("b", refused)),
			[]string{"I2 a: still applied"}},
		{"a step undone twice", Checker{}, ended(Compensated),
			story(x("a"), x("b", refused), c("a"), c("a", attempt(2))), []string{"I2 a: undone 2 times"}},
		{"a step undone in a completed saga", Checker{}, ended(Completed), story(x("a"), x("b"), x("c"), c("c")),
			[]string{"I2 c: was undone", "I4 c: was compensated"}},
		{"an undo called in a completed saga", Checker{}, ended(Completed), story(x("a"), x("b"), x("c"), c("c", failed)),
			[]string{"I4 c: was compensated"}},
		{"a step called before its predecessor answered", Checker{}, ended(Completed),
			story(x("a", lost), x("b"), x("a", attempt(2), dup), x("c")), []string{"I3 b: before step a"}},
		{"garbage taken for an answer", Checker{}, ended(Completed), story(x("a", garbled), x("b"), x("c")),
			[]string{"I3 b: before step a"}},
		{"a step undone that was never reached", Checker{}, ended(Compensated),
			story(x("a", refused), c("b", nothing)), []string{"I3 b: before step a"}},
		{"a step called ahead of one that has not answered", Checker{}, ahead(Completed),
			story(x("a", lost), x("b"), x("a", attempt(2), dup), x("c")), []string{"I3 b: before step a"}},
		{"what was called ahead is not undone", Checker{}, ahead(Compensated),
			story(x("a"), x("b"), x("a", attempt(2), refused, fence(2)), c("a", fence(2))),
			[]string{"I4 a: before the later step b", "I2 b: still applied"}},
		{"compensation forward", Checker{}, ended(Compensated), story(x("a"), x("b"), x("c", refused), c("a"), c("b")),
			[]string{"I4 a: before the later step b"}},
		{"compensation forward, of a step whose execute never arrived", Checker{}, ended(Compensated),
			story(x("a"), c("a"), c("b", nothing)), []string{"I4 a: before the later step b"}},
		{"an effect forgotten because another call was refused", Checker{}, ended(Dirty),
			story(x("a"), x("b"), x("b", attempt(2), refused), c("a")), []string{"I4 a: before the later step b"}},
		{"compensation without waiting for the answer", Checker{}, ended(Compensated),
			story(x("a"), x("b"), x("c", refused), c("b", failed), c("a"), c("b", attempt(2))),
			[]string{"I4 a: before the later step b"}},
		{"an unknown outcome undone last", Checker{}, ended(Compensated),
			story(x("a"), x("b", lost), c("a"), c("b")), []string{"I4 a: before the later step b"}},
		{"an unknown outcome taken for a failure", Checker{}, ended(Compensated), story(x("a"), x("b", failed), c("a")),
			[]string{"I4 a: before the later step b", "I4 b: was not compensated"}},
		{"a doubt forgotten because the next call was refused", Checker{}, ended(Compensated),
			story(x("a"), x("b", failed), x("b", attempt(2), refused), c("a")),
			[]string{"I4 a: before the later step b", "I4 b: was not compensated"}},
		{"an undo nobody confirmed", Checker{}, ended(Compensated), story(x("a"), x("b", refused), c("a", lost)),
			[]string{"I4 a: no compensation was answered"}},
		{"an undo the workflow does not have", Checker{}, withoutUndoOfB,
			story(x("a"), x("b"), x("c", refused), c("b"), c("a")), []string{"I4 b: has no compensation"}},
		{"a refused step undone", Checker{Calm: true}, ended(Compensated),
			story(x("a"), x("b", refused), c("b", nothing), c("a")), []string{"I4 b: was refused"}},
		{"a step the workflow does not have", Checker{}, ended(Completed), story(x("a"), x("b"), x("c"), x("d")),
			[]string{"I4 d: does not have"}},
		{"forward again after turning back", Checker{}, ended(Compensated),
			story(x("a"), x("b", refused), c("a"), x("a", attempt(2), tooLate)), []string{"I5 a: compensation had begun"}},
		{"work done long after turning back, although undone", Checker{Reorder: time.Second}, ended(Compensated),
			story(c("a", later(0)), x("a", later(3*time.Second))), []string{"I5 a: compensation had begun"}},
		{"work done after turning back, however soon", Checker{Reorder: time.Hour}, ended(Compensated),
			story(x("a"), c("b", nothing), x("b"), c("b", attempt(2)), c("a")), []string{"I5 b: compensation had begun"}},
		{"an old driver still calling", Checker{}, ended(Completed),
			story(x("a", fence(2)), x("b", fence(1)), x("c", fence(2))),
			[]string{"I6 b: fence 1 after 2"}},
		{"a new key for the retry", Checker{}, ended(Completed),
			story(x("a", failed), x("a", attempt(2), key("other")), x("b"), x("c")), []string{"I7 a: has key"}},
		{"another body for the retry", Checker{}, ended(Completed),
			story(x("a", failed), x("a", attempt(2), body("other")), x("b"), x("c")), []string{"I7 a: different body"}},
		{"another body for the retry of an undo", Checker{}, ended(Compensated),
			story(x("a"), x("b", refused), c("a", failed), c("a", attempt(2), body("other"))), []string{"I7 a: different body"}},
		{"one key for both directions", Checker{}, ended(Compensated),
			story(x("a"), x("b", refused), c("a", key("s1/a/execute"))), []string{"I7 a: belongs to the execute"}},
		{"an attempt number used twice", Checker{Reorder: time.Hour}, ended(Completed),
			story(x("a", failed), x("a", failed), x("a"), x("b"), x("c")), []string{"I7 a: sent again"}},
		{"an attempt number used twice on a calm day", Checker{Calm: true, Reorder: time.Hour}, ended(Completed),
			story(x("a", failed), x("a"), x("b"), x("c")), []string{"I7 a: sent again"}},
		{"an attempt number used by two drivers", Checker{Reorder: time.Hour}, ended(Completed),
			story(x("a", lost), x("a", dup, fence(2)), x("b", fence(2)), x("c", fence(2))), []string{"I7 a: sent again"}},
		{"an attempt number that falls", Checker{Reorder: time.Second}, ended(Completed),
			story(x("a", attempt(2), later(0)), x("a", dup, later(3*time.Second)), x("b"), x("c")),
			[]string{"I7 a: came after attempt 2"}},
		{"an attempt number that falls within one moment", Checker{}, ended(Completed),
			story(x("a", attempt(2), later(0)), x("a", dup, later(0)), x("b"), x("c")), []string{"I7 a: came after attempt 2"}},
		{"too many executes", Checker{MaxExecutes: 2}, ended(Completed),
			story(x("a", failed), x("a", attempt(2), failed), x("a", attempt(3)), x("b"), x("c")),
			[]string{"I8 a: 3 times"}},
		{"too many compensates", Checker{MaxCompensates: 1}, ended(Compensated),
			story(x("a"), x("b", refused), c("a", failed), c("a", attempt(2))), []string{"I8 a: 2 times"}},
		{"a repeated call on a calm day", Checker{Calm: true}, ended(Completed),
			story(x("a"), x("a", attempt(2), dup), x("b"), x("c")), []string{"I8 a: answered with 200"}},
		{"a refusal asked for again on a calm day", Checker{Calm: true}, ended(Compensated),
			story(x("a", refused), x("a", attempt(2), dup, status(409))), []string{"I8 a: answered with 409"}},
		{"a call a participant could not read", Checker{}, ended(Compensated),
			story(x("a", nothing, status(http.StatusBadRequest))), []string{"contract a: answered 400"}},
		{"two ledgers thrown together", Checker{}, ended(Completed), func() []Entry {
			e := story(x("a"), x("b"), x("c"))
			e[1].Seq = 1
			return e
		}(), []string{"input b: used twice", "I3 b: before step a"}},
		{"an end without steps", Checker{}, map[string]SagaEnd{"s1": {Outcome: Completed}}, story(x("a")),
			[]string{"input : names no steps"}},
		{"an end that is none", Checker{}, ended("running"), story(x("a")), []string{"input : not one of the three"}},
		{"an action that is none", Checker{}, ended(Compensated), story(entry("a", "undo", nil)),
			[]string{"input a: neither execute nor compensate"}},
		{"a dirty end hides no double work", Checker{}, ended(Dirty), story(x("a"), x("a", attempt(2))),
			[]string{"I2 a: applied 2 times"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.checker.Check(tt.entries, tt.want)
			for i, v := range got {
				if i >= len(tt.found) {
					t.Errorf("also found: %s", v)
					continue
				}
				head, detail, _ := strings.Cut(tt.found[i], ": ")
				if v.Invariant+" "+v.Step != head || !strings.Contains(v.Detail, detail) || v.Saga != "s1" {
					t.Errorf("found %s; want %s", v, tt.found[i])
				}
			}
			if len(got) < len(tt.found) {
				t.Errorf("not found: %v", tt.found[len(got):])
			}
		})
	}
}

func TestSagasAreJudgedApartAndReportedInOrder(t *testing.T) {
	end := ended(Completed)["s1"]
	want := map[string]SagaEnd{"s1": end, "s2": end, "s3": end}
	entries := story(
		x("a", ofSaga("s3")), x("a"), x("a", ofSaga("s2")), x("b", ofSaga("s3")), x("b"), x("b", ofSaga("s2")),
		x("c", ofSaga("s2")),
	)
	got := Check(entries, want)
	if len(got) != 2 || got[0].Saga != "s1" || got[1].Saga != "s3" {
		t.Errorf("violations = %v, want that s1 and s3 never applied c", got)
	}
	if text := got[0].String(); text != "I2: saga s1, step c: was never applied, yet the saga completed" {
		t.Errorf("text = %q", text)
	}
}
