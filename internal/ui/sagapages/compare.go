package sagapages

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// line of a comparison: Sign is "+" (only in the second), "−" (only in the first) or a space.
type line struct{ Sign, Text string }

const (
	mostLines  = 1500 // of a document that is compared
	linesNear  = 3    // lines without a change that are shown around changes
	mostShown  = 200_000
	hiddenText = `"***"` // what the API sends in place of content that the caller may not read
)

// compare is the difference of two JSON documents by lines, with their members in order; nil when they are equal.
// ok is false when they are too long to compare, or no JSON.
func compare(before, after json.RawMessage) (lines []line, ok bool) {
	a, okA := canonicalLines(before)
	b, okB := canonicalLines(after)
	if !okA || !okB {
		return nil, false
	}
	if slices.Equal(a, b) {
		return nil, true
	}
	return near(difference(a, b)), true
}

func canonicalLines(raw json.RawMessage) ([]string, bool) {
	if len(raw) == 0 {
		return nil, true
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil, false
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out) // sorts the members of objects; numbers keep their digits
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if e.Encode(v) != nil {
		return nil, false
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines, len(lines) <= mostLines
}

// difference keeps a longest common subsequence of lines.
func difference(a, b []string) (out []line) {
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		out = append(out, line{" ", a[start]})
		start++
	}
	end := 0
	for end < len(a)-start && end < len(b)-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	same := a[len(a)-end:]
	a, b = a[start:len(a)-end], b[start:len(b)-end]
	long := make([][]int, len(a)+1) // length of the longest common subsequence of a[i:] and b[j:]
	for i := range long {
		long[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				long[i][j] = long[i+1][j+1] + 1
			} else {
				long[i][j] = max(long[i+1][j], long[i][j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, line{" ", a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && long[i+1][j] >= long[i][j+1]:
			out = append(out, line{"−", a[i]})
			i++
		default:
			out = append(out, line{"+", b[j]})
			j++
		}
	}
	for _, text := range same {
		out = append(out, line{" ", text})
	}
	return out
}

// near leaves out lines that are far from every change.
func near(all []line) (out []line) {
	changed := func(i int) bool { return i >= 0 && i < len(all) && all[i].Sign != " " }
	left := false
	for i := range all {
		keep := false
		for j := i - linesNear; j <= i+linesNear && !keep; j++ {
			keep = changed(j)
		}
		if keep {
			out, left = append(out, all[i]), false
		} else if !left {
			out, left = append(out, line{" ", "⋯"}), true
		}
	}
	return out
}

// mergePatch is the JSON merge patch (RFC 7386) that makes after of before; false when there is none, as a merge
// patch cannot set a member to null.
func mergePatch(before, after any) (any, bool) {
	from, wasObject := before.(map[string]any)
	to, isObject := after.(map[string]any)
	if !isObject {
		return after, !hasNull(after, false)
	}
	if !wasObject {
		from = nil
	}
	patch, ok := map[string]any{}, true
	for name := range from {
		if _, stays := to[name]; !stays {
			patch[name] = nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(to)) {
		value, was := from[name]
		if was && equal(value, to[name]) {
			continue
		}
		if to[name] == nil {
			ok = false // a null in a patch takes the member away
			continue
		}
		inner, fits := mergePatch(value, to[name])
		patch[name], ok = inner, ok && fits
	}
	return patch, ok
}

// hasNull reports whether an object within v has a member that is null. Arrays are replaced as they are.
func hasNull(v any, within bool) bool {
	o, isObject := v.(map[string]any)
	if !isObject {
		return v == nil && within
	}
	for _, inner := range o {
		if hasNull(inner, true) {
			return true
		}
	}
	return false
}

// equal compares JSON values; numbers by their digits.
func equal(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// exact reads JSON without rounding numbers.
func exact(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}
