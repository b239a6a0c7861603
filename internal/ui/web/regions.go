package web

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/html"
)

// liveHeader is sent by pages that request their own URL again. It lists the regions that they
// show, as named in the previous response: "id=hash,…", or "-" before the first one. The response
// then contains only the regions that differ.
const liveHeader = "Skald-Live"

// regionsOf returns the regions of a page. Regions are not nested.
func regionsOf(page []byte) (all []region) {
	z := html.NewTokenizer(bytes.NewReader(page))
	at, depth := 0, 0 // position in the page; nesting depth of elements with the same tag
	from := 0         // where the region begins
	var open region
	var tag string
	for {
		kind := z.Next()
		begin := at
		at += len(z.Raw())
		if kind == html.ErrorToken {
			return all
		}
		if kind != html.StartTagToken && kind != html.EndTagToken {
			continue
		}
		name, more := z.TagName()
		switch {
		case depth > 0 && kind == html.StartTagToken && string(name) == tag:
			depth++
		case depth > 0 && kind == html.EndTagToken && string(name) == tag:
			if depth--; depth == 0 {
				open.html = page[from:at]
				open.hash = hashOf(open.html)
				all = append(all, open)
			}
		case depth == 0 && kind == html.StartTagToken && more:
			if id, live := liveID(z); live {
				open, from, tag, depth = region{id: id}, begin, string(name), 1
			}
		}
	}
}

// liveID returns the id of the tag that z is at, and reports whether it begins a region.
func liveID(z *html.Tokenizer) (id string, live bool) {
	for {
		key, value, more := z.TagAttr()
		switch string(key) {
		case "id":
			id = string(value)
		case "data-live":
			live = true
		}
		if !more {
			return id, live && id != ""
		}
	}
}

// onlyChanged returns what a browser that shows the regions in had needs to update the page: the
// title, the refresh interval, and the regions that differ. The header lists all regions.
func onlyChanged(h http.Header, regions []region, heading string, refresh int, had string) []byte {
	known := map[string]bool{}
	for _, r := range strings.Split(had, ",") {
		known[r] = true
	}
	var out bytes.Buffer
	_, _ = fmt.Fprintf(&out, "<!doctype html><title>%s</title><body data-refresh=\"%d\">\n", //nolint:errcheck // a buffer
		html.EscapeString(heading), refresh)
	var names []string
	for _, r := range regions {
		name := r.id + "=" + r.hash
		if names = append(names, name); !known[name] {
			out.Write(r.html)
		}
	}
	h.Set(liveHeader, strings.Join(names, ","))
	return out.Bytes()
}
