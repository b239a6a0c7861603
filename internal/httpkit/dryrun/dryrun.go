// Package dryrun says what an action would change, from what to what. Every dry run answers with it, whatever the
// action is about.
package dryrun

import (
	"cmp"
	"slices"
	"time"
)

// Change is a value that an action would change; "" stands for none.
type Change struct {
	Of       string // the kind of things that it concerns, such as a saga; "": the one that the action is about
	Member   string
	From, To string
	Count    int64 // of how many things; 0: of the one that the action is about
}

// List is what an action would change.
type List []Change

// Differs adds a member to the list unless it keeps its value.
func (l *List) Differs(member, from, to string) {
	if from != to {
		*l = append(*l, Change{Member: member, From: from, To: to})
	}
}

// Most is how many different changes of many things are listed.
const Most = 50

// Many collects what an action would change in many things of one kind.
type Many struct {
	Of     string
	counts map[Change]*Change
}

// Add adds the changes of one thing, or of n that change equally.
func (m *Many) Add(l List, n int64) {
	if m.counts == nil {
		m.counts = map[Change]*Change{}
	}
	for _, c := range l {
		c.Of = m.Of
		key := c
		key.From, key.To = alike(c.From), alike(c.To)
		sum := m.counts[key]
		if sum == nil {
			sum = &c
			sum.Count = 0
			m.counts[key] = sum
		}
		sum.Count += n
		sum.From, sum.To = earlier(sum.From, c.From), earlier(sum.To, c.To)
	}
}

// List returns the changes, equal ones counted, those of most things first. Times count as equal, because each thing
// has its own; the earliest stands for all.
func (m *Many) List() List {
	out := List{}
	for _, c := range m.counts {
		if c.Count > 0 {
			out = append(out, *c)
		}
	}
	slices.SortFunc(out, func(a, b Change) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Member, b.Member), cmp.Compare(a.From, b.From),
			cmp.Compare(a.To, b.To))
	})
	return out[:min(len(out), Most)]
}

// alike is what two values have in common that count as equal.
func alike(value string) string {
	if _, err := time.Parse(time.RFC3339, value); err == nil {
		return "a time"
	}
	return value
}

// earlier returns the earlier of two alike values.
func earlier(a, b string) string {
	at, err := time.Parse(time.RFC3339, a)
	if err != nil {
		return a
	}
	if other, err := time.Parse(time.RFC3339, b); err == nil && other.Before(at) {
		return b
	}
	return a
}

// Text is a time as the value of a change.
func Text(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
