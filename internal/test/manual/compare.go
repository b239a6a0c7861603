package manual

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Mask replaces values that differ from run to run with the same text on both sides.
type Mask struct {
	Pattern string // a regular expression
	With    string
}

// masks apply to all sessions.
var masks = []Mask{
	{`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, "<id>"},
	{`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d(:?\d\d)?)?`, "<time>"},
	{`skald_[A-Za-z0-9-]{8,}_[A-Za-z0-9_-]{20,}`, "<key>"},
	{`"(etag|ETag)": ?"[^"]*"`, `"etag":"<etag>"`},
}

func masked(text string, more []Mask) string {
	for _, m := range slices.Concat(more, masks) { // the session's own masks see the unmasked text
		text = regexp.MustCompile(m.Pattern).ReplaceAllString(text, m.With)
	}
	return text
}

// differs describes how the output differs from the page, or returns "" if it doesn't. An ellipsis
// (…) in the page matches anything, and spaces at the ends of lines are ignored. JSON is compared
// by value, unless the page's JSON contains an ellipsis.
func differs(b block, got string, more []Mask) string {
	want, got := masked(b.output, more), masked(got, more)
	if b.kind == jsonOutput && !strings.Contains(want, "…") {
		w, err := canonical(want)
		if err != nil {
			return fmt.Sprintf("the page's JSON cannot be read: %v", err)
		}
		g, err := canonical(got)
		if err != nil {
			return fmt.Sprintf("not JSON: %v\n%s", err, got)
		}
		want, got = w, g
	}
	want, got = tidy(want), tidy(got)
	pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "…", `[\s\S]*?`)
	if regexp.MustCompile(`^` + pattern + `$`).MatchString(got) {
		return ""
	}
	return fmt.Sprintf("--- the page shows\n%s\n--- it printed\n%s", want, got)
}

func tidy(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t\r")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

// canonical rewrites each JSON document in text with its members sorted.
func canonical(text string) (string, error) {
	in := json.NewDecoder(strings.NewReader(text))
	in.UseNumber()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	for {
		var doc any
		if err := in.Decode(&doc); errors.Is(err, io.EOF) {
			return out.String(), nil
		} else if err != nil {
			return "", err
		}
		if err := enc.Encode(doc); err != nil {
			return "", err
		}
	}
}
