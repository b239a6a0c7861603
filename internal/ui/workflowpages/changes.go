package workflowpages

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// changes are the differences between two definitions, in the definition as a whole and by step.
type changes struct {
	Whole []member // outside of the steps
	Steps []stepChange
}

// None reports whether there are no differences.
func (c changes) None() bool { return len(c.Whole) == 0 && len(c.Steps) == 0 }

// stepChange describes how a step changed. Positions are numbered from 1.
type stepChange struct {
	Name    string
	Added   bool
	Removed bool
	Moved   bool // its position changed relative to the other steps that are in both
	From    int
	To      int
	Members []member
}

// member is a value that differs. Old or New is empty if the value is absent there.
type member struct{ Path, Old, New string }

// changesOf compares two definitions, each given as JSON.
func changesOf(before, after json.RawMessage) (changes, error) {
	var out changes
	old, oldSteps, err := partsOf(before)
	if err != nil {
		return out, err
	}
	present, steps, err := partsOf(after)
	if err != nil {
		return out, err
	}
	out.Whole = membersChanged(old, present)
	was := map[string]int{}
	for i, s := range oldSteps {
		was[s.name] = i
	}
	is := map[string]bool{}
	var order []int // the former positions of the steps that are in both, in their current order
	for _, s := range steps {
		is[s.name] = true
		if i, ok := was[s.name]; ok {
			order = append(order, i)
		}
	}
	stayed := longestRising(order)
	for to, s := range steps {
		from, ok := was[s.name]
		c := stepChange{Name: s.name, From: from + 1, To: to + 1}
		switch {
		case !ok:
			c.Added, c.From = true, 0
			c.Members = membersChanged(nil, s.members)
		default:
			c.Moved = !slices.Contains(stayed, from)
			c.Members = membersChanged(oldSteps[from].members, s.members)
		}
		if c.Added || c.Moved || len(c.Members) > 0 {
			out.Steps = append(out.Steps, c)
		}
	}
	for from, s := range oldSteps {
		if !is[s.name] {
			out.Steps = append(out.Steps, stepChange{
				Name: s.name, Removed: true, From: from + 1, Members: membersChanged(s.members, nil),
			})
		}
	}
	return out, nil
}

// parts contains the values of a step by path.
type parts struct {
	name    string
	members map[string]string
}

// partsOf splits a definition into its steps and the rest.
func partsOf(raw json.RawMessage) (whole map[string]string, steps []parts, err error) {
	var all map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&all); err != nil {
		return nil, nil, err
	}
	list, _ := all["steps"].([]any)
	delete(all, "steps")
	whole = map[string]string{}
	flatten(whole, "", all)
	for _, s := range list {
		object, _ := s.(map[string]any)
		name, _ := object["name"].(string)
		delete(object, "name")
		p := parts{name, map[string]string{}}
		flatten(p.members, "", object)
		steps = append(steps, p)
	}
	return whole, steps, nil
}

// flatten lists the values in v by their paths, such as "retry.max_attempts". A list counts as a
// single value.
func flatten(into map[string]string, path string, v any) {
	if object, ok := v.(map[string]any); ok && (len(object) > 0 || path == "") {
		for name, inner := range object {
			to := name
			if path != "" {
				to = path + "." + name
			}
			flatten(into, to, inner)
		}
		return
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		out.WriteString(strconv.Quote("?"))
	}
	into[path] = string(bytes.TrimSpace(out.Bytes()))
}

func membersChanged(old, present map[string]string) (out []member) {
	paths := map[string]bool{}
	for p := range old {
		paths[p] = true
	}
	for p := range present {
		paths[p] = true
	}
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		if old[p] != present[p] {
			out = append(out, member{p, old[p], present[p]})
		}
	}
	return out
}

// longestRising returns a longest increasing subsequence, which are the steps that keep their
// order.
func longestRising(all []int) []int {
	length, before := make([]int, len(all)), make([]int, len(all))
	best := -1
	for i := range all {
		length[i], before[i] = 1, -1
		for j := range i {
			if all[j] < all[i] && length[j]+1 > length[i] {
				length[i], before[i] = length[j]+1, j
			}
		}
		if best < 0 || length[i] > length[best] {
			best = i
		}
	}
	var out []int
	for i := best; i >= 0; i = before[i] {
		out = append(out, all[i])
	}
	slices.Reverse(out)
	return out
}
