package dlq

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const (
	headersNamed = 8  // number of headers listed for an oversized record, the largest first
	nameShown    = 80 // maximum number of bytes shown of a header's name
)

// HeaderSizes describes for people how many bytes the headers of a record take, the largest first.
func HeaderSizes(headers []Header) string {
	type sum struct {
		name         string
		bytes, times int
	}
	var all []*sum
	of, bytes := map[string]*sum{}, 0
	for _, h := range headers {
		s := of[h.Name]
		if s == nil {
			s = &sum{name: h.Name}
			of[h.Name], all = s, append(all, s)
		}
		n := len(h.Name) + len(h.Value)
		s.bytes, s.times, bytes = s.bytes+n, s.times+1, bytes+n
	}
	if len(all) == 0 {
		return "0"
	}
	slices.SortStableFunc(all, func(a, b *sum) int { return cmp.Compare(b.bytes, a.bytes) })
	named := make([]string, 0, headersNamed+1)
	for i, s := range all {
		if i == headersNamed {
			named = append(named, fmt.Sprintf("and %d more", len(all)-i))
			break
		}
		words := fmt.Sprintf("%s %d", Storable(s.name, nameShown), s.bytes)
		if s.times > 1 {
			words += fmt.Sprintf(" (%d times)", s.times)
		}
		named = append(named, words)
	}
	return fmt.Sprintf("%d: %s", bytes, strings.Join(named, ", "))
}
