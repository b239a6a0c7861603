package httpkit

import (
	"mime"
	"strconv"
	"strings"
)

// Preferred is the media type, of those that an operation offers, that a client prefers by its Accept (RFC 9110,
// section 12.5.1): of equal ones the one that is named exactly, then the first. One that accepts none gets the first.
func Preferred(accept string, offered ...string) string {
	best, most, exactly := offered[0], 0.0, -1
	for _, media := range offered {
		if q, exact := accepted(accept, media); q > most || q == most && q > 0 && exact > exactly {
			best, most, exactly = media, q, exact
		}
	}
	return best
}

// accepted is the weight of a media type in Accept, and how exactly it is named: 2 as it is, 1 by its type, 0 by */*.
func accepted(accept, media string) (q float64, exact int) {
	kind, _, _ := strings.Cut(media, "/")
	exact = -1
	for part := range strings.SplitSeq(accept, ",") {
		given, params, err := mime.ParseMediaType(part)
		at := map[string]int{"*/*": 1, kind + "/*": 2, media: 3}[given] - 1
		if err != nil || at <= exact {
			continue
		}
		q, exact = 1, at
		if weight, weighed := params["q"]; weighed {
			q, _ = strconv.ParseFloat(weight, 64) // unreadable: not at all
		}
	}
	return q, exact
}
