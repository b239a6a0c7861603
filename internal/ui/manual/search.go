package manual

import (
	"cmp"
	"html/template"
	"slices"
	"strings"
	"unicode/utf8"
)

// hit is a section that a search found.
type hit struct {
	Chapter *chapter
	Section *section
	Excerpt template.HTML
	points  int
}

const mostHits = 30

// search returns the sections that contain all words, best matches first. A match in a title counts
// more than one in the text. If there are no matches, it searches for the words that were probably
// meant.
func (m *manual) search(query string) (hits []hit, meant string) {
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return nil, ""
	}
	if hits = m.withAll(words); len(hits) > 0 {
		return hits, ""
	}
	if words, ok := m.words().corrected(words); ok {
		if hits = m.withAll(words); len(hits) > 0 {
			return hits, strings.Join(words, " ")
		}
	}
	return nil, ""
}

func (m *manual) withAll(words []string) (hits []hit) {
	for _, g := range m.groups {
		for _, c := range g.Chapters {
			for i := range c.Sections {
				s := &c.Sections[i]
				if p := points(words, c, s); p > 0 {
					hits = append(hits, hit{Chapter: c, Section: s, Excerpt: excerpt(s.Text(), words), points: p})
				}
			}
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.points, a.points) })
	return hits[:min(len(hits), mostHits)]
}

func points(words []string, c *chapter, s *section) (sum int) {
	title, body, page := strings.ToLower(s.Title), strings.ToLower(s.Text()), strings.ToLower(c.Title)
	for _, w := range words {
		found := 20*same(title, w) + 5*min(strings.Count(title, w), 2) + min(strings.Count(body, w), 4)
		if found == 0 {
			return 0
		}
		sum += found + 2*min(strings.Count(page, w), 1)
	}
	return sum
}

func same(a, b string) int {
	if a == b {
		return 1
	}
	return 0
}

// excerpt returns the text around the first word found, with all words marked.
func excerpt(s string, words []string) template.HTML {
	const before, after = 60, 180
	lower := strings.ToLower(s)
	if len(lower) != len(s) { // the lower-case text has a different length, so positions would not match
		lower = s
	}
	at := max(strings.Index(lower, words[0]), 0)
	from, to := boundary(s, at-before), boundary(s, at+after)
	var out strings.Builder
	if from > 0 {
		out.WriteString("… ")
	}
	for from < to {
		next, length := to, 0
		for _, w := range words {
			if i := strings.Index(lower[from:to], w); i >= 0 && from+i < next {
				next, length = from+i, len(w)
			}
		}
		out.WriteString(template.HTMLEscapeString(s[from:next]))
		if length > 0 {
			out.WriteString("<mark>" + template.HTMLEscapeString(s[next:next+length]) + "</mark>")
		}
		from = next + length
	}
	if to < len(s) {
		out.WriteString(" …")
	}
	return template.HTML(out.String()) //nolint:gosec // escaped above
}

// boundary returns the nearest position, at or before at, at which a character of s begins.
func boundary(s string, at int) int {
	at = min(max(at, 0), len(s))
	for at > 0 && at < len(s) && !utf8.RuneStart(s[at]) {
		at--
	}
	return at
}
