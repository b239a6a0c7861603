package dlq

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
)

// Allowance returns how many letters a redrive's rate allows now. It is a token bucket that fills
// at the rate (letters per second), holds the tokens of one second but at least one token, and
// starts with one token. left is its content at since; a nil since means that no letter has been
// taken yet.
func (r *Redrive) Allowance(left float64, since *time.Time, now time.Time) float64 {
	if since == nil {
		return 1
	}
	return min(max(r.Rate, 1), left+r.Rate*max(now.Sub(*since).Seconds(), 0))
}

// Bounded reports whether Grant depends on how many letters are in flight.
func (r *Redrive) Bounded() bool { return r.watched() != nil || r.StopOn != (StopOn{}) }

// Grant returns how many letters, at most limit, may be taken now while busy letters are in flight.
// The allowance, the canary and the stop condition limit this number.
func (r *Redrive) Grant(limit int, allowance float64, busy int64) int {
	n := min(limit, int(allowance))
	if !r.Bounded() {
		return n
	}
	n = int(min(int64(n), r.Room(busy)))
	if c := r.watched(); c != nil {
		n = min(n, max(0, c.Count-int(r.Matched-r.Left())-int(busy)))
	}
	return n
}

// Candidate is a waiting letter of a redrive, with the facts that decide whether it is taken.
type Candidate struct {
	Seq      int64 // sequence number of its item
	LetterID uuid.UUID
	Status   Status // "": archived or deleted
	Topic    string
	Key      []byte // nil: none
	To       Target
	// Behind is set for an Ordered letter that waits for an older letter with the same key. It is
	// the state of the older letter in this redrive, or Elsewhere if that letter does not belong to
	// this redrive. "" means that the letter does not wait.
	Behind ItemState
	// Paused means that the target has asked not to be called until later.
	Paused bool
	// Other is an earlier redrive that holds the letter (Ahead, Holding); zero means none.
	Other uuid.UUID
}

// Elsewhere is the value of Candidate.Behind if the older letter belongs to no redrive or to a
// different one.
const Elsewhere ItemState = "-"

// Key is shared by letters that are sent one after the other.
type Key struct{ topic, key string }

// KeyOf returns the key of a letter, and false if it has none.
func KeyOf(topic string, key []byte) (Key, bool) { return Key{topic, string(key)}, key != nil }

// Keys holds the states of keys in a redrive whose order is per_key.
type Keys map[Key]ItemState

// Noted lists the item states that affect younger letters with the same key.
var Noted = []ItemState{ItemTaken, ItemFailed}

// Note records that a letter with a key is in one of the states Noted. A failure is never
// overwritten.
func (k Keys) Note(of Key, is ItemState) {
	if k[of] != ItemFailed {
		k[of] = is
	}
}

// behind returns what a candidate is waiting for.
func (r *Redrive) behind(c *Candidate, keys Keys) ItemState {
	if key, has := KeyOf(c.Topic, c.Key); c.Behind == "" && r.Order == PerKey && has {
		return keys[key]
	}
	return c.Behind
}

// Choice is the decision about candidates. Candidates in neither list keep waiting.
type Choice struct {
	Taken   []Candidate
	Skipped []Item // with their state and the reason
}

// Choose decides which of the candidates, at most n and in their order, are taken and which are
// skipped. Only the first unfinished letter of a key is taken if the letters are Ordered or if the
// redrive's order is per_key.
func (r *Redrive) Choose(all []Candidate, keys Keys, routes Routes, n int) (out Choice) {
	busy := map[Key]bool{}
	skip := func(c *Candidate, why string) {
		i := Item{Seq: c.Seq, LetterID: c.LetterID, State: ItemWaiting, Detail: why}
		i.to(ItemSkipped, ItemRefused)
		out.Skipped = append(out.Skipped, i)
	}
	for i := range all {
		if len(out.Taken) == n {
			break
		}
		c := &all[i]
		key, has := KeyOf(c.Topic, c.Key)
		oneByOne := has && r.Order == PerKey
		switch behind := r.behind(c, keys); {
		case c.Status == "":
			skip(c, whyGone)
		case oneByOne && c.Status == Retrying: // since before it was collected
			busy[key] = true
		case !r.claims(c.Status):
			skip(c, fmt.Sprintf("it is %s", c.Status))
		case c.Other != uuid.Nil:
			skip(c, fmt.Sprintf("it belongs to redrive %s, which began earlier", c.Other))
		case !routes.Reaches(c.To.Kind):
			skip(c, TargetNotConfigured(c.To.Kind))
		case behind == ItemFailed:
			skip(c, "an older dead letter with the same key has failed")
		case behind == ItemWaiting, behind == ItemTaken, oneByOne && busy[key]:
		case behind != "":
			skip(c, "an older dead letter with the same key is open")
		case c.Paused:
			busy[key] = busy[key] || oneByOne
		default:
			out.Taken = append(out.Taken, *c)
			busy[key] = oneByOne
		}
	}
	return out
}

// claims reports whether a redrive retries letters with a given status.
func (r *Redrive) claims(s Status) bool {
	return CanMove(s, Claimed) || r.Force && CanMove(s, ForcedClaim)
}

// Yields reports whether r skips the letters that another redrive has collected. A redrive that has
// not begun, because it is scheduled or awaits approval, holds no letters.
func (r *Redrive) Yields(other *Redrive) bool {
	return r.Action == BulkRetry && other.StartedAt != nil && slices.Contains(Ahead, other.State)
}

const whyGone = "it was archived or deleted"

// Verdict describes how an action of a redrive changes a letter.
type Verdict struct {
	Item
	After   Letter // the letter once the item is DONE, unless Deleted
	Deleted bool
}

// Act applies the action of a redrive, other than BulkRetry, to one of its letters. A letter with
// the status "" no longer exists. p is the policy of the letter's topic; only BulkRequeue needs it.
func (r *Redrive) Act(seq int64, l *Letter, p *Policy, m Moment) Verdict {
	v := Verdict{Item: Item{Seq: seq, LetterID: l.ID, State: ItemWaiting, UpdatedAt: m.Now}}
	skipped := func(why string) Verdict {
		i := v.Item
		i.to(ItemSkipped, ItemRefused)
		i.Detail = why
		return Verdict{Item: i}
	}
	var c Change
	var err error
	switch {
	case l.Status == "":
		return skipped(whyGone)
	case r.Action != BulkRequeue && l.Waited():
		return skipped("a saga is waiting for it")
	}
	switch r.Action {
	case BulkDiscard:
		c, err = Apply(*l, DiscardRequested{}, m)
	case BulkResolve:
		c, err = Apply(*l, ResolveRequested{}, m)
	case BulkRequeue:
		c, err = Apply(*l, RequeueRequested{Policy: p}, m)
	case BulkDelete:
		err, v.Deleted = l.Deletable(), true
	default:
		panic(fmt.Sprintf("dlq: a redrive with the action %s does not change letters directly", r.Action))
	}
	if err != nil {
		return skipped(fmt.Sprintf("it is %s", l.Status))
	}
	v.After = c.After
	v.to(ItemDone, ItemActed)
	return v
}

// AuditLetter returns the audit entry for r's action on a letter; id is the entry's id.
func (r *Redrive) AuditLetter(v *Verdict, before *Letter, id uuid.UUID) operator.Action {
	detail := []byte(`{"redrive_id":"` + r.ID.String() + `"}`)
	if v.Deleted {
		detail = before.Tombstone()
	}
	by := operator.By{Actor: r.Actor, ActorName: r.ActorName, Reason: r.Reason}
	return by.Did(id, before.TenantID, v.UpdatedAt, operator.DeadLetter, before.ID.String(), r.Action.Verb(), detail)
}

// Verb returns the name of a redrive's action in the audit trail, which is the same as for the
// action on a single letter.
func (a RedriveAction) Verb() string { return string(a) }

// Room returns how many more letters may be in flight while busy letters are in flight. When StopOn
// halts the redrive, letters in flight are sent anyway, so their number never exceeds the number of
// failures still allowed or the number of parallel requests.
func (r *Redrive) Room(busy int64) int64 {
	if r.StopOn == (StopOn{}) {
		return math.MaxInt64
	}
	tried, failed := r.Counted()
	most := int64(math.MaxInt64)
	if n := r.StopOn.Failures; n > 0 {
		most = n - failed
	}
	if share := r.StopOn.FailureRatio; share > 0 && share < 1 {
		more := math.Floor((share*float64(tried)-float64(failed))/(1-share)) + 1
		most = min(most, max(ratioFrom-tried, int64(more)))
	}
	return max(0, max(int64(r.Concurrency), most)-busy)
}
