package registry

import "strings"

// Place is the destination of a URL: the key of its origin, and its path.
type Place struct {
	TLS  bool
	Host string // lower case, without brackets
	Port string
	Path string // without the query
}

// PlaceOf splits the URL of a call, which package workflow has accepted. It is called before every
// call, and allocates nothing unless the host contains capital letters.
func PlaceOf(url string) (p Place, ok bool) {
	scheme, rest, found := strings.Cut(url, "://")
	if !found {
		return p, false
	}
	switch {
	case strings.EqualFold(scheme, "http"):
		p.Port = "80"
	case strings.EqualFold(scheme, "https"):
		p.TLS, p.Port = true, "443"
	default:
		return p, false
	}
	host := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		host, p.Path = rest[:end], rest[end:]
		if end := strings.IndexAny(p.Path, "?#"); end >= 0 {
			p.Path = p.Path[:end]
		}
	}
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		if colon+1 < len(host) {
			p.Port = host[colon+1:]
		}
		host = host[:colon]
	}
	if len(host) > 1 && host[0] == '[' {
		host = host[1 : len(host)-1]
	}
	p.Host = strings.ToLower(host)
	return p, host != ""
}

// Holds reports whether a call to c belongs to the participant at p: it has the same origin, and
// its path is at or below that of p.
func (p *Place) Holds(c *Place) bool {
	return p.TLS == c.TLS && p.Port == c.Port && p.Host == c.Host && strings.HasPrefix(c.Path, p.Path) &&
		(len(c.Path) == len(p.Path) || c.Path[len(p.Path)] == '/' || p.Path == "")
}
