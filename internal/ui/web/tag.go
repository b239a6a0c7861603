package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Unchanged is the Data of a page whose current state the browser already has: nothing is
// rendered.
type Unchanged struct{}

// stateMark separates, in an ETag, the state of a page from what the page depends on besides.
const stateMark = "~"

// weak begins the ETags of pages: two answers with one tag mean the same, and differ in words for times and in their
// compression.
const weak = "W/"

// tag returns the ETag of a page in a state. It includes the visitor, the URL and this process, because the page
// depends on the visitor's permissions and on the version of the program.
func (v *Visit) tag(state string) string {
	who, _ := json.Marshal(v.Who) // it was JSON
	sum := sha256.Sum256([]byte(v.Kit.started + v.Tenant + "\n" + v.URL.RequestURI() + "\n" + string(who)))
	return weak + `"` + state + stateMark + hex.EncodeToString(sum[:9]) + `"`
}

// Had returns the state of the page that the browser has, as the handler has named it; empty: it has none, or that of
// another visitor.
func (v *Visit) Had() string {
	tag := v.Header.Get("If-None-Match")
	state, _, ok := strings.Cut(strings.Trim(tag, weak+`"`), stateMark)
	if !ok || v.Method != http.MethodGet || tag != v.tag(state) {
		return ""
	}
	return state
}

// follow sends the browser the refresh interval and the advancing times in headers, because a 304 has no page that
// would contain them.
func (p *Page) follow(h http.Header) {
	if p.Refresh > 0 {
		h.Set("Skald-Refresh", strconv.Itoa(p.Refresh))
	}
	var all []string
	for id, at := range p.Times {
		all = append(all, id+"="+at.UTC().Format(time.RFC3339Nano))
	}
	if slices.Sort(all); len(all) > 0 {
		h.Set("Skald-Times", strings.Join(all, ","))
	}
}

// changing is what differs between two renderings of the same page: the words of a time, the calls with the times of
// now in them, and the time at which it was checked.
var changing = []struct{ from, to []byte }{
	{[]byte("<time "), []byte("</time>")}, {[]byte("<footer"), []byte("</footer>")}, {[]byte(`data-now="`), []byte(`"`)},
}

// tagOf is the ETag of a page.
func tagOf(page []byte) string { return weak + `"` + hashOf(page) + `"` }

// hashOf is the hash of what of a page, or of a part of it, does not change with time alone.
func hashOf(page []byte) string {
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
			return hex.EncodeToString(hash.Sum(nil)[:12])
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

// indexFrom returns where what begins in page at or after a position; the length of page if it
// does not occur.
func indexFrom(page, what []byte, from int) int {
	if i := bytes.Index(page[from:], what); i >= 0 {
		return from + i
	}
	return len(page)
}
