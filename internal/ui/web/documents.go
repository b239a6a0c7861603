package web

import (
	"bytes"
	"encoding/json"
	"html/template"
	"strings"
)

// Value shows a short JSON value within a line, with its tokens in classes of the style sheet.
// Numbers keep their digits. A long value is shown as by Tree.
func Value(raw json.RawMessage) template.HTML {
	if len(raw) == 0 {
		return ""
	}
	if len(raw) > 2000 {
		return Tree(raw)
	}
	if string(raw) == hiddenContent {
		return `<span class="quiet">hidden: requires payloads:read</span>`
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, raw, "", "  ") != nil {
		return template.HTML(template.HTMLEscapeString(string(raw)))
	}
	var b strings.Builder
	in := pretty.Bytes()
	token := func(class string, text []byte) {
		b.WriteString(`<span class="` + class + `">`)
		b.WriteString(jsonEscapes.Replace(string(text)))
		b.WriteString(`</span>`)
	}
	for i := 0; i < len(in); {
		end := i + 1
		switch c := in[i]; {
		case c == '"':
			for ; in[end] != '"'; end++ {
				if in[end] == '\\' {
					end++
				}
			}
			end++
			class := "j-s"
			if end < len(in) && in[end] == ':' {
				class = "j-k"
			}
			token(class, in[i:end])
		case c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z':
			for end < len(in) && !bytes.ContainsRune([]byte(",\n ]}"), rune(in[end])) {
				end++
			}
			token("j-n", in[i:end])
		default:
			template.HTMLEscape(&b, in[i:end])
		}
		i = end
	}
	return template.HTML(b.String()) //nolint:gosec // every part of it is escaped
}

// Token escapes a member's name for use as a token of a JSON Pointer (RFC 6901).
func Token(name string) string { return pointerEscapes.Replace(name) }

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")
