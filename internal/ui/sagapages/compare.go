package sagapages

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/skald-saga/skald/internal/ui/web"
)

const (
	mostShown  = 200_000 // bytes of a document that are shown or compared
	hiddenText = `"***"` // what the API sends in place of content that the caller may not read
)

// compare returns the difference between two JSON documents by lines, with their members sorted. It
// is empty if they are equal. ok is false if they are too long to compare or are not JSON.
func compare(before, after json.RawMessage) (lines []web.DiffLine, ok bool) {
	if len(before) > mostShown || len(after) > mostShown {
		return nil, false
	}
	a, okA := canonical(before)
	b, okB := canonical(after)
	return web.Diff(a, b), okA && okB
}

func canonical(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 {
		return "", true
	}
	v, err := exact(raw)
	if err != nil {
		return "", false
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out) // sorts the members of objects; numbers keep their digits
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err = e.Encode(v)
	return out.String(), err == nil
}

// mergePatch returns the JSON merge patch (RFC 7396) that turns before into after. It returns false
// if there is none, because a merge patch cannot set a member to null.
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
			ok = false // a null in a patch removes the member
			continue
		}
		inner, fits := mergePatch(value, to[name])
		patch[name], ok = inner, ok && fits
	}
	return patch, ok
}

// hasNull reports whether an object within v has a member that is null. Arrays are not searched,
// because they are replaced as a whole.
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

// equal compares JSON values; numbers are compared by their digits.
func equal(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// exact parses JSON without rounding numbers.
func exact(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err = d.Decode(&v); err == nil && d.More() {
		err = errors.New("more than one value")
	}
	return v, err
}
