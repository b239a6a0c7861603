package manual

import (
	"strings"
	"unicode"
)

// vocabulary contains the words of the manual and how often each occurs.
type vocabulary map[string]int

func vocabularyOf(chapters map[string]*chapter) vocabulary {
	all := vocabulary{}
	for _, c := range chapters {
		for i := range c.Sections {
			s := &c.Sections[i]
			for _, word := range strings.FieldsFunc(strings.ToLower(s.Title+" "+s.Text()), separates) {
				all[word]++
			}
		}
	}
	return all
}

// separates reports whether a character separates words.
func separates(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' }

// corrected returns the words, with each word that the manual does not contain replaced by the most
// similar one that it does. It returns false if a word resembles none.
func (all vocabulary) corrected(words []string) ([]string, bool) {
	out := make([]string, 0, len(words))
	for _, w := range words {
		best := w
		if !all.contains(w) {
			if best = all.nearest(w); best == "" {
				return nil, false
			}
		}
		out = append(out, best)
	}
	return out, true
}

// contains reports whether a search for w finds anything.
func (all vocabulary) contains(w string) bool {
	for word := range all {
		if strings.Contains(word, w) {
			return true
		}
	}
	return false
}

// nearest returns the word that a person who typed w most probably meant, or "" if there is none.
// Short words may have one wrong letter, and words of eight or more letters two.
func (all vocabulary) nearest(w string) (best string) {
	typed := []rune(w)
	least := 2
	if len(typed) < 4 {
		return ""
	}
	if len(typed) >= 8 {
		least = 3
	}
	for word, n := range all {
		other := []rune(word)
		if len(other)-len(typed) >= least || len(typed)-len(other) >= least || len(other) < 3 {
			continue
		}
		d := distance(typed, other)
		if d < least || d == least && best != "" && (n > all[best] || n == all[best] && word < best) {
			least, best = d, word
		}
	}
	return best
}

// distance returns how many letters must be inserted, deleted, replaced or swapped with their
// neighbour to turn a into b.
func distance(a, b []rune) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
