package web

import (
	"bytes"
	"encoding/json"
	"html/template"
	"strconv"
	"strings"
)

// What a page shows of JSON, so that a browser stays quick whatever clients store.
const (
	jsonShown   = 200_000       // bytes, without indentation
	jsonWritten = 4 * jsonShown // bytes of HTML, which is more where much is indentation
	jsonParts   = 1_500         // foldable parts; what is inside of later ones is plain text
	jsonColors  = 4_000         // tokens in colors; later ones have the color of text
	jsonWhole   = 60            // lines of a document that is shown unfolded
	jsonOpen    = 2             // levels that are open in a longer one
	jsonGroup   = 100           // members of an array or object in one part
)

// hiddenContent is what the API sends in place of content that the visitor may not see.
const hiddenContent = `"***"`

// Tree shows a JSON document with one member on each line, folded below its second level. It works without scripts,
// which add the search and the copying of paths (json.js). Its text is exactly the document; the rest is content of
// styles. Numbers keep their digits. Of a long document it shows the beginning.
func Tree(raw json.RawMessage) template.HTML {
	if len(raw) == 0 {
		return `<pre class="json"></pre>`
	}
	if string(raw) == hiddenContent {
		return `<p class="quiet">hidden: requires payloads:read</p>`
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, bytes.TrimSpace(raw), "", "  ") != nil {
		text := strings.ToValidUTF8(string(raw[:min(len(raw), jsonShown)]), "\uFFFD")
		return template.HTML(`<pre class="json">` + template.HTMLEscapeString(text) + `</pre>`) //nolint:gosec // escaped
	}
	t := jsonTree{lines: strings.Split(pretty.String(), "\n"), members: map[int]int{}}
	t.countMembers()
	t.out.WriteString(`<div class="json tree">`)
	for t.at < len(t.lines) && t.shown < jsonShown && t.out.Len() < jsonWritten {
		t.line(t.lines[t.at])
		t.at++
	}
	for _, l := range t.open {
		t.closeTags(l)
	}
	t.out.WriteString(`</div>`)
	if t.at < len(t.lines) || t.shown > jsonShown {
		t.out.WriteString(`<p class="quiet">The first ` + Bytes(min(t.shown, jsonShown)) + ` of ` + Bytes(len(raw)) +
			` are shown. The API returns all of it.</p>`)
	}
	return template.HTML(t.out.String()) //nolint:gosec // every part of it is escaped
}

// jsonTree writes indented JSON, line by line: each is the beginning or the end of an array or object, or a member
// without members.
type jsonTree struct {
	lines   []string
	members map[int]int // of the array or object that begins at a line
	at      int
	out     strings.Builder
	shown   int // bytes
	parts   int
	colored int
	open    []jsonLevel
}

// jsonLevel is an array or object that has not ended yet.
type jsonLevel struct {
	members, written int
	folds, grouped   bool // the elements that are open for it
}

func begins(text string) bool { return strings.HasSuffix(text, "{") || strings.HasSuffix(text, "[") }

func ends(text string) bool { return text[0] == '}' || text[0] == ']' }

func (t *jsonTree) countMembers() {
	var within []int
	for i, line := range t.lines {
		line = strings.TrimLeft(line, " ")
		if ends(line) {
			within = within[:len(within)-1]
			continue
		}
		if len(within) > 0 {
			t.members[within[len(within)-1]]++
		}
		if begins(line) {
			within = append(within, i)
		}
	}
}

func (t *jsonTree) line(line string) {
	text := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(text)]
	if ends(text) {
		last := t.open[len(t.open)-1]
		t.open = t.open[:len(t.open)-1]
		if last.grouped {
			t.out.WriteString(`</div></details>`)
		}
		t.write(indent, text)
		t.out.WriteByte('\n')
		t.closeTags(jsonLevel{folds: last.folds})
		return
	}
	t.group()
	if !begins(text) {
		t.write(indent, text)
		t.out.WriteByte('\n')
		return
	}
	level := jsonLevel{members: t.members[t.at], folds: t.parts < jsonParts}
	if !level.folds {
		t.write(indent, text)
		t.out.WriteByte('\n')
	} else {
		t.parts++
		t.out.WriteString(`<details`)
		if len(t.lines) <= jsonWhole || len(t.open) < jsonOpen {
			t.out.WriteString(` open`)
		}
		t.out.WriteString(`><summary data-n="` + t.folded(text, level.members) + `">`)
		t.write(indent, text)
		t.out.WriteString("<i>\n</i></summary><div>") // not seen: what follows a folded part stands on its line
	}
	t.open = append(t.open, level)
}

// folded is what follows the beginning of a folded array or object: the first of its members, if that is short, and
// how many there are.
func (t *jsonTree) folded(text string, members int) string {
	closing := " }"
	if strings.HasSuffix(text, "[") {
		closing = " ]"
	}
	first := strings.TrimLeft(t.lines[t.at+1], " ")
	if begins(first) || len(first) > 60 {
		first = ""
	} else {
		first += " "
	}
	if members > 1 {
		first += "… "
	}
	return strings.ReplaceAll(jsonEscapes.Replace(" "+first), `"`, "&#34;") + Count(int64(members), false) + closing
}

func (t *jsonTree) closeTags(l jsonLevel) {
	if l.grouped {
		t.out.WriteString(`</div></details>`)
	}
	if l.folds {
		t.out.WriteString(`</div></details>`)
	}
}

// group begins a part of an array or object that has many members.
func (t *jsonTree) group() {
	if len(t.open) == 0 {
		return
	}
	of := &t.open[len(t.open)-1]
	if of.members > jsonGroup && of.written%jsonGroup == 0 && t.parts < jsonParts {
		if of.grouped {
			t.out.WriteString(`</div></details>`)
		}
		t.parts++
		of.grouped = true
		t.out.WriteString(`<details`)
		if of.written == 0 {
			t.out.WriteString(` open`)
		}
		last := min(of.written+jsonGroup, of.members) - 1
		part := strconv.Itoa(of.written) + ` … ` + strconv.Itoa(last)
		t.out.WriteString(`><summary class="part" data-n="` + part + `" aria-label="` + part + `"></summary><div>`)
	}
	of.written++
}

// write writes a line: perhaps the name of a member, and a value or its beginning.
func (t *jsonTree) write(indent, text string) {
	left := jsonShown - t.shown
	t.shown += len(text)
	t.out.WriteString(indent)
	if len(text) > left {
		t.out.WriteString(jsonEscapes.Replace(strings.ToValidUTF8(text[:left], "")) + "…")
		return
	}
	if end := stringEnd(text); end > 0 && end < len(text) && text[end] == ':' {
		t.token("j-k", text[:end])
		t.out.WriteString(": ")
		text = text[end+2:]
	}
	end := stringEnd(text)
	switch {
	case end > 0:
		t.token("j-s", text[:end])
	case !begins(text) && !ends(text) && text[0] != '{' && text[0] != '[': // not the empty ones
		end = len(strings.TrimSuffix(text, ","))
		t.token("j-n", text[:end])
	}
	t.out.WriteString(text[max(end, 0):])
}

// stringEnd is where the JSON string that text begins with ends; -1 when it begins with none.
func stringEnd(text string) int {
	if text[0] != '"' {
		return -1
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

func (t *jsonTree) token(class, text string) {
	text = jsonEscapes.Replace(text)
	if t.colored++; t.colored > jsonColors {
		t.out.WriteString(text)
		return
	}
	t.out.WriteString(`<span class="` + class + `">` + text + `</span>`)
}

// jsonEscapes shows what would turn the direction of text around as JSON escapes it.
var jsonEscapes = strings.NewReplacer(
	append([]string{"&", "&amp;", "<", "&lt;", ">", "&gt;"}, eachBidi(`\u%04x`)...)...)
