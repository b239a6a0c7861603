package secrets

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/skald-saga/skald/internal/saga/expression"
	"github.com/skald-saga/skald/internal/strictjson"
)

// Hider replaces the secrets of one participant in its answers by their placeholders. A nil Hider finds none.
type Hider struct {
	version int64
	replace *strings.Replacer
	forms   []string
}

// newHider returns a Hider for values, each with the name of its secret.
func newHider(version int64, values map[string][]string) *Hider {
	h := &Hider{version: version}
	var pairs []string
	byForm := map[string]string{}
	for name, all := range values {
		for _, value := range all {
			for _, form := range forms(value) {
				if other, known := byForm[form]; !known || name < other {
					byForm[form] = name
				}
				h.forms = append(h.forms, form)
			}
		}
	}
	h.forms = longestFirst(h.forms)
	for _, form := range h.forms {
		pairs = append(pairs, form, expression.Placeholder(byForm[form]))
	}
	h.replace = strings.NewReplacer(pairs...)
	return h
}

// Found reports whether a text contains a secret.
func (h *Hider) Found(text []byte) bool {
	if h == nil {
		return false
	}
	for _, form := range h.forms {
		if bytes.Contains(text, []byte(form)) {
			return true
		}
	}
	return false
}

// Text returns a text without the secrets.
func (h *Hider) Text(s string) string {
	if h == nil {
		return s
	}
	return h.replace.Replace(s)
}

// JSON returns canonical JSON without the secrets, and whether it contained any. A number that
// contains a secret becomes a string.
func (h *Hider) JSON(j []byte) (out []byte, found bool) {
	if h == nil || !h.Found(j) && bytes.IndexByte(j, '\\') < 0 {
		return j, false
	}
	out = make([]byte, 0, len(j))
	for i := 0; i < len(j); {
		end := i + 1
		switch c := j[i]; {
		case c == '"':
			for end < len(j) && j[end] != '"' {
				if j[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(j))
		case c == '-' || '0' <= c && c <= '9':
			for end < len(j) && !strings.ContainsRune(",]}", rune(j[end])) {
				end++
			}
		default:
			out = append(out, c)
			i = end
			continue
		}
		hidden, is := h.scalar(j[i:end])
		out, found, i = append(out, hidden...), found || is, end
	}
	return out, found
}

// scalar returns a JSON string or number without secrets.
func (h *Hider) scalar(j []byte) (hidden []byte, found bool) {
	text := string(j)
	if j[0] == '"' && json.Unmarshal(j, &text) != nil {
		return j, false
	}
	shown := h.replace.Replace(text)
	if shown == text {
		return j, false
	}
	hidden, err := strictjson.Encode(shown)
	if err != nil { // the text was valid JSON, and placeholders are too
		return []byte(`""`), true
	}
	return hidden, true
}
