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

// Unchanged is the Data of a page whose current state the browser already has, so that nothing is
// rendered.
type Unchanged struct{}

// stateMark separates the state of a page in an ETag from everything else that the page depends on.
const stateMark = "~"

// weak begins the ETags of pages. Two responses with the same tag are equivalent, and differ only
// in the texts of relative times and in their compression.
const weak = "W/"

// tag returns the ETag for a page in a state. It includes the visitor, the URL and this process,
// because the page depends on the visitor's permissions and on the version of the program.
func (v *Visit) tag(state string) string {
	who, _ := json.Marshal(v.Who) // it was decoded from JSON
	sum := sha256.Sum256([]byte(v.Kit.started + v.Tenant + "\n" + v.URL.RequestURI() + "\n" + string(who)))
	return weak + `"` + state + stateMark + hex.EncodeToString(sum[:9]) + `"`
}

// Had returns the state of the page that the browser has, as reported by the handler, or "" if it
// has none, or one of another visitor.
func (v *Visit) Had() string {
	tag := v.Header.Get("If-None-Match")
	state, _, ok := strings.Cut(strings.Trim(tag, weak+`"`), stateMark)
	if !ok || v.Method != http.MethodGet || tag != v.tag(state) {
		return ""
	}
	return state
}

// follow sends the refresh interval and the advancing times to the browser in headers, because a
// 304 response has no page that would contain them.
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

// changing lists what differs between two renderings of the same page: the texts of times, the
// calls that contain current times, and the time at which the page was checked.
var changing = []struct{ from, to []byte }{
	{[]byte("<time "), []byte("</time>")}, {[]byte("<footer"), []byte("</footer>")}, {[]byte(`data-now="`), []byte(`"`)},
}

// tagOf returns the ETag of a page.
func tagOf(page []byte) string { return weak + `"` + hashOf(page) + `"` }

// hashOf returns the hash of a page, or of a part of it, ignoring what changes only with time.
func hashOf(page []byte) string {
	hash := sha256.New()
	var next [3]int // where the next changing part of each kind begins
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
		_, _ = hash.Write(page[at:begin]) // writing to a hash cannot fail
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

// indexFrom returns where what begins in page at or after a position, or the length of page if it
// does not occur.
func indexFrom(page, what []byte, from int) int {
	if i := bytes.Index(page[from:], what); i >= 0 {
		return from + i
	}
	return len(page)
}
