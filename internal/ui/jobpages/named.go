package jobpages

import "regexp"

// part is a part of a text: words, or the id of a run that it names.
type part struct{ Text, Run string }

var namesRun = regexp.MustCompile(`run ([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})`)

// named returns a text in parts, so that the runs in it can be links.
func named(text string) (parts []part) {
	at := 0
	for _, m := range namesRun.FindAllStringSubmatchIndex(text, -1) {
		parts = append(parts, part{Text: text[at:m[0]]}, part{Run: text[m[2]:m[3]]})
		at = m[1]
	}
	return append(parts, part{Text: text[at:]})
}
