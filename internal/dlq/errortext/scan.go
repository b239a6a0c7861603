package errortext

import "unicode/utf8"

const (
	maxOut        = 500  // bytes of a result
	maxIn         = 2000 // bytes of a message that are read
	kindsOfQuotes = 17
)

// scan is a message that is being normalised.
type scan struct {
	in   string
	cut  bool // in is only the beginning of the message
	out  []byte
	full bool // nothing more is written

	url      int                // end of the URL that is being read; less than the position: none
	unclosed [kindsOfQuotes]int // up to here no quote of this kind is closed
}

// blank writes one space for any number of spaces, and none at the beginning.
func (s *scan) blank() {
	if n := len(s.out); n > 0 && s.out[n-1] != ' ' {
		s.put(" ")
	}
}

// put writes text that stays as it is, and nothing if there is no room for all of it.
func (s *scan) put(text string) {
	if s.full = s.full || len(s.out)+len(text) > maxOut; !s.full {
		s.out = append(s.out, text...)
	}
}

// putLetters writes a word of letters, as much as there is room for.
func (s *scan) putLetters(word string) {
	if room := maxOut - len(s.out); !s.full && len(word) > room {
		s.out, s.full = append(s.out, word[:room]...), true
		return
	}
	s.put(word)
}

// hash writes a # for a variable token. Lists, pairs and ranges of such tokens, which also vary
// in length, become a single #.
func (s *scan) hash() {
	n := len(s.out)
	for n > 0 && is(s.out[n-1], joint) && len(s.out)-n < 2 {
		n--
	}
	if n > 0 && s.out[n-1] == '#' {
		if !s.full {
			s.out = s.out[:n]
		}
		return
	}
	s.put("#")
}

// tail returns the last bytes written, beginning at a character boundary.
func (s *scan) tail(n int) []byte {
	from := max(len(s.out)-n, 0)
	for from < len(s.out) && !utf8.RuneStart(s.out[from]) {
		from++
	}
	return s.out[from:]
}
