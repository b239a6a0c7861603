package overview

import "strconv"

// Part is a part of the overview, which the caller may or may not read.
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

// Most is the limit up to which items are counted, and of the items of a part that are
// examined.
const Most = 1000

// MostLetters is the limit up to which the letters of a group are counted: enough to order the
// groups.
const MostLetters = 100

// MostCauses is how many causes of one kind are shown.
const MostCauses = 20

// Count is a number of items, at most Most; Capped: there are more.
type Count struct {
	N      int
	Capped bool
}

// CountOf returns a count of up to Most+1 items that were found.
func CountOf(n int) Count { return upTo(Most, n) }

func upTo(most, n int) Count { return Count{min(n, most), n > most} }

// Add returns the sum of both counts.
func (c Count) Add(o Count) Count {
	sum := CountOf(c.N + o.N)
	sum.Capped = sum.Capped || c.Capped || o.Capped
	return sum
}

// number shows a count: "41", "more than 1,000".
func (c Count) number() string {
	if c.Capped {
		return "more than 1,000"
	}
	if c.N >= 1000 {
		return strconv.Itoa(c.N/1000) + "," + strconv.Itoa(1000 + c.N%1000)[1:]
	}
	return strconv.Itoa(c.N)
}

// raised stands for the reasons for attention that people give in words of their own.
const raised = "raised"
