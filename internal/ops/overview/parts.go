package overview

import "strconv"

// Part is a part of the overview for which the caller needs permission.
type Part string

// Parts.
const (
	Sagas       Part = "sagas"
	DeadLetters Part = "dead_letters"
	JobRuns     Part = "job_runs"
	Webhooks    Part = "webhooks"
	Nodes       Part = "nodes"
)

// Parts lists every part.
var Parts = []Part{Sagas, DeadLetters, JobRuns, Webhooks, Nodes}

// Most is the limit up to which items are counted, and the maximum number of items of a part that
// are checked.
const Most = 1000

// MostLetters is the limit up to which the letters of a group are counted. It is high enough to
// order the groups.
const MostLetters = 100

// MostCauses is how many causes of one kind are shown.
const MostCauses = 20

// Count is a number of items, at most Most. Capped means that there are more.
type Count struct {
	N      int
	Capped bool
}

// CountOf returns the Count for n found items, where n is at most Most+1.
func CountOf(n int) Count { return upTo(Most, n) }

func upTo(most, n int) Count { return Count{min(n, most), n > most} }

// Add returns the sum of both counts.
func (c Count) Add(o Count) Count {
	sum := CountOf(c.N + o.N)
	sum.Capped = sum.Capped || c.Capped || o.Capped
	return sum
}

// number formats a count: "41", "more than 1,000".
func (c Count) number() string {
	if c.Capped {
		return "more than 1,000"
	}
	if c.N >= 1000 {
		return strconv.Itoa(c.N/1000) + "," + strconv.Itoa(1000 + c.N%1000)[1:]
	}
	return strconv.Itoa(c.N)
}

// raised stands for all reasons for attention that people typed.
const raised = "raised"
