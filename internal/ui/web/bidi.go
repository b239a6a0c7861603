package web

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// bidi contains the characters that change the direction of the text after them. Text from clients
// may contain them. A page shows that they are there, but does not let them take effect.
var bidi = []rune{
	0x061C, 0x200E, 0x200F, 0x202A, 0x202B, 0x202C, 0x202D, 0x202E, 0x2066, 0x2067, 0x2068, 0x2069,
}

// eachBidi contains pairs for a strings.Replacer: a character, and the format with its number.
func eachBidi(format string) (pairs []string) {
	for _, r := range bidi {
		pairs = append(pairs, string(r), fmt.Sprintf(format, r))
	}
	return pairs
}

var visibleBidi = strings.NewReplacer(eachBidi("⟨U+%04X⟩")...)

// entered matches what a form sends back unchanged.
var entered = regexp.MustCompile(`(?s)<textarea\b[^>]*>.*?</textarea>|\bvalue="[^"]*"`)

// showDirections replaces the characters that change directions on a page by their numbers.
func showDirections(page []byte) []byte {
	if !bytes.ContainsFunc(page, func(r rune) bool { return r >= bidi[0] && slices.Contains(bidi, r) }) {
		return page
	}
	var out bytes.Buffer
	from := 0
	for _, kept := range append(entered.FindAllIndex(page, -1), []int{len(page), len(page)}) {
		out.WriteString(visibleBidi.Replace(string(page[from:kept[0]])))
		out.Write(page[kept[0]:kept[1]])
		from = kept[1]
	}
	return out.Bytes()
}
