package httpkit

import (
	"mime"
	"strconv"
	"strings"
)

// Preferred returns which of the media types that an operation offers a client prefers according to
// its Accept header (RFC 9110, section 12.5.1). Among equally weighted types, one that is named
// exactly wins, then the first offered. A client that accepts none of them gets the first.
func Preferred(accept string, offered ...string) string {
	best, most, exactly := offered[0], 0.0, -1
	for _, media := range offered {
		if q, exact := accepted(accept, media); q > most || q == most && q > 0 && exact > exactly {
			best, most, exactly = media, q, exact
		}
	}
	return best
}

// accepted returns the weight of a media type in Accept, and how exactly it is named: 2 for an
// exact match, 1 for its type, 0 for */*.
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
			q, _ = strconv.ParseFloat(weight, 64) // an invalid weight counts as 0
		}
	}
	return q, exact
}
