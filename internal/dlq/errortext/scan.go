package errortext

import "unicode/utf8"

const (
	maxOut        = 500  // maximum number of bytes in a result
	maxIn         = 2000 // maximum number of bytes of a message that are read
	kindsOfQuotes = 17
)

// scan is a message being normalised.
type scan struct {
	in   string
	cut  bool // in is only the beginning of the message
	out  []byte
	full bool // nothing more is written

	url      int                // end of the URL being read; less than the position if there is none
	unclosed [kindsOfQuotes]int // up to this position, no quote of this kind is closed
}

// blank writes a single space for any number of spaces, and none at the beginning.
func (s *scan) blank() {
	if n := len(s.out); n > 0 && s.out[n-1] != ' ' {
		s.put(" ")
	}
}

// put writes text that is kept. It writes nothing if there is not enough room for all of it.
func (s *scan) put(text string) {
	if s.full = s.full || len(s.out)+len(text) > maxOut; !s.full {
		s.out = append(s.out, text...)
	}
}

// putLetters writes as much of a word of letters as there is room for.
func (s *scan) putLetters(word string) {
	if room := maxOut - len(s.out); !s.full && len(word) > room {
		s.out, s.full = append(s.out, word[:room]...), true
		return
	}
	s.put(word)
}

// hash writes a # for a variable token. Lists, pairs and ranges of such tokens, whose length also
// varies, become a single #.
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

// tail returns the last bytes written, starting at a character boundary.
func (s *scan) tail(n int) []byte {
	from := max(len(s.out)-n, 0)
	for from < len(s.out) && !utf8.RuneStart(s.out[from]) {
		from++
	}
	return s.out[from:]
}
