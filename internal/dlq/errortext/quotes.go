package errortext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// quotes maps opening quotes to the quotes that close them. An apostrophe is also a quote, unless
// it follows a letter.
var quotes = [kindsOfQuotes]struct {
	open       rune
	close      string
	apostrophe bool
}{
	{'"', `"`, false}, {'`', "`'", false}, {'\'', "'", true}, {'’', "’", true}, {'‘', "’", true}, {'‚', "‘’", true},
	{'“', "”“", false}, {'”', "”", false}, {'„', "“”", false}, {'«', "»", false}, {'»', "«", false},
	{'‹', "›", false}, {'›', "‹", false}, {'「', "」", false}, {'『', "』", false}, {'《', "》", false}, {'〈', "〉", false},
}

func isQuote(r rune) bool {
	for k := range quotes {
		if quotes[k].open == r {
			return true
		}
	}
	return false
}

// quote reads quoted text or an apostrophe. It drops an unclosed quote, and the text after it is
// read normally.
func (s *scan) quote(i int, r rune, size int) int {
	for k := range quotes {
		q := &quotes[k]
		if q.open != r {
			continue
		}
		if q.apostrophe && afterLetter(s.in, i) {
			s.put("'")
			return i + size
		}
		if end := s.quoted(k, i+size); end > 0 {
			s.hash()
			return end
		}
	}
	s.blank()
	return i + size
}

// quoted returns the end of the quoted text whose opening quote ends at i, or 0 if the quote is not
// closed on its line.
func (s *scan) quoted(k, i int) int {
	if i < s.unclosed[k] {
		return 0
	}
	q := &quotes[k]
	escaped := 0 // the end if backslashes are not escapes
	for j := i; j < len(s.in); {
		c := s.in[j]
		if c == '\n' {
			s.unclosed[k] = j
			return escaped
		}
		r, n := rune(c), 1
		if c >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(s.in[j:])
		}
		closes := strings.ContainsRune(q.close, r) && r != utf8.RuneError && j > i &&
			(!q.apostrophe || !beforeLetter(s.in, j+n))
		switch {
		case closes && s.in[j-1] == '\\':
			if escaped == 0 {
				escaped = j + n
			}
		case closes:
			return j + n
		}
		j += n
	}
	if escaped == 0 && s.cut && !q.apostrophe {
		return len(s.in) // closed beyond the part that is read
	}
	if escaped == 0 {
		s.unclosed[k] = len(s.in)
	}
	return escaped
}

// afterLetter reports whether i is preceded by a letter, a digit or a # that replaces them, in a
// language that has apostrophes.
func afterLetter(s string, i int) bool {
	r, _ := utf8.DecodeLastRuneInString(s[:i])
	return i > 0 && (r == '#' || spells(r))
}

func beforeLetter(s string, i int) bool {
	r, _ := utf8.DecodeRuneInString(s[i:])
	return i < len(s) && spells(r)
}

func spells(r rune) bool {
	if r < utf8.RuneSelf {
		return is(byte(r), word)
	}
	return (unicode.IsLetter(r) || unicode.IsMark(r)) &&
		!unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}
