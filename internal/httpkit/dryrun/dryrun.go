// Package dryrun describes what an action would change, with the old and the new values. All dry
// runs use it in their answers.
package dryrun

import (
	"cmp"
	"slices"
	"time"
)

// Change is a value that an action would change; "" means that there is no value.
type Change struct {
	Of       string // the kind of object, such as a saga; "": the object of the action
	Member   string
	From, To string
	Count    int64 // number of objects; 0: only the object of the action
}

// List is the list of changes that an action would make.
type List []Change

// Differs adds a member to the list if its value would change.
func (l *List) Differs(member, from, to string) {
	if from != to {
		*l = append(*l, Change{Member: member, From: from, To: to})
	}
}

// Most is the maximum number of different changes that are listed for many objects.
const Most = 50

// Many collects the changes that an action would make to many objects of one kind.
type Many struct {
	Of     string
	counts map[Change]*Change
}

// Add adds the changes to one object, or to n objects that change in the same way.
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

// List returns the changes with the number of objects that each affects, most objects first. Times
// count as equal, because every object has a different one; the earliest represents them all.
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

// alike returns a key that is the same for values that count as equal.
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

// Text returns a time as the value of a change.
func Text(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
