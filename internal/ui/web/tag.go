package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
)

// changing is what differs between two renderings of the same page: the words of a time, the calls with the times of
// now in them, and the time at which it was checked.
var changing = []struct{ from, to []byte }{
	{[]byte("<time "), []byte("</time>")}, {[]byte("<footer"), []byte("</footer>")}, {[]byte(`data-now="`), []byte(`"`)},
}

// tagOf is the ETag of a page: the hash of what is not changing by itself.
func tagOf(page []byte) string {
	hash := sha256.New()
	var next [3]int // where the changing part begins that comes next, of each kind
	for i := range changing {
		next[i] = indexFrom(page, changing[i].from, 0)
	}
	for at := 0; ; {
		kind := 0
		for i := range next {
			if next[i] < next[kind] {
				kind = i
			}
		}
		begin := next[kind]
		_, _ = hash.Write(page[at:begin]) // a hash takes everything
		if begin == len(page) {
			return `"` + hex.EncodeToString(hash.Sum(nil)[:12]) + `"`
		}
		c := changing[kind]
		at = min(len(page), indexFrom(page, c.to, begin+len(c.from))+len(c.to))
		for i := range next {
			if next[i] < at {
				next[i] = indexFrom(page, changing[i].from, at)
			}
		}
	}
}

// indexFrom is where what begins in page, from a position on; its length when it is not there.
func indexFrom(page, what []byte, from int) int {
	if i := bytes.Index(page[from:], what); i >= 0 {
		return from + i
	}
	return len(page)
}
