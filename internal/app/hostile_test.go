package app_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// breaks ends attributes, elements and templates, and turns the direction of text around.
const breaks = `"'><img zq src=x onerror=alert(1)></title></textarea></script>{{.}}` + "\u202e\u2028"

// hostile makes the owner of a canaryNode an attacker of those who look at the pages.
type hostile struct {
	planted map[string]bool     // names of fields that have taken the whole text
	refused map[string][]string // fields that have not → operations
}

// text is what the attacker says in a field. It has the field's name in it, so that texts that belong together, such
// as a correlation ID and the filter for it, are equal. Nil says the text of the honest owner.
func (h *hostile) text(field, honest string) string {
	if h == nil || honest != canary {
		return honest
	}
	switch field {
	case "description", "note", "initiated_by", "node", "assignee":
		return "javascript:alert(1)//" + canary + "~" + field + "~" + breaks
	case "chunk":
		return "\x1b[31m\x1b]0;" + canary + "\a" + canary + "~" + field + "~" + breaks + "\x7f\r\n"
	case "name", "value", "answer header": // of headers
		return canary + "~" + field + "~" + strings.TrimRight(breaks, "\u202e\u2028")
	}
	return "=" + canary + "~" + field + "~" + breaks
}

// tame is for fields that are too short for the whole text.
func tame(field string) string { return canary + "~" + field[:min(len(field), 12)] + `~"'><zq>` }

// attack sends a request with hostile text in each field of the document that accepts it. It
// returns false if the API accepts it in no field.
func (a *canaryNode) attack(
	id, as, path string, doc any, header []string, fits func(status int) bool,
) (answer string, done bool) {
	a.t.Helper()
	level := map[string]int{} // pointer → 0: the whole text, 1: a short one, 2: the honest one
	op, seen := a.ops[id], map[string]string{}
	for range 12 {
		body := encoded(a.hostile.arm(doc, "", "", level, seen))
		status, text := a.send(as, op.method, path, body, header...)
		if fits(status) {
			for pointer, name := range seen {
				if level[pointer] == 0 {
					a.hostile.planted[name] = true
				} else {
					a.hostile.refused[name] = append(a.hostile.refused[name], id)
				}
			}
			return text, true
		}
		if status >= 500 {
			a.t.Errorf("%s: %d %s\nto %s", id, status, text, body)
			return "", false
		}
		raw, _, _ := strings.Cut(text, "\nmap[")
		var problem struct {
			Errors []struct{ Pointer, Message string }
		}
		_ = json.Unmarshal([]byte(raw), &problem) // without errors it is refused below
		before := maps.Clone(level)
		for _, e := range problem.Errors {
			for pointer := range seen {
				parent, key := strings.CutSuffix(pointer, "/"+canary+" key")
				if meant := pointer == e.Pointer || strings.HasPrefix(pointer, e.Pointer+"/") ||
					key && strings.HasPrefix(e.Pointer, parent+"/"); e.Pointer != "" && meant && level[pointer] < 2 {
					level[pointer]++
				}
			}
		}
		if maps.Equal(before, level) {
			a.hostile.refused[fmt.Sprintf("all of %s: %s", id, problemOf(raw))] = nil
			return "", false
		}
	}
	return "", false
}

func problemOf(text string) string {
	return field(text, "code") + " " + field(text, "detail") + " " + text[max(0, strings.Index(text, `"errors"`)):]
}

// arm replaces the canary in a document where it stands alone.
func (h *hostile) arm(v any, pointer, name string, level map[string]int, seen map[string]string) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			at := pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
			if key == canary {
				key = h.say(at+" key", "key of "+name, level, seen)
				out[key] = h.arm(value, at, "value of "+name, level, seen)
			} else {
				out[key] = h.arm(value, at, key, level, seen)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = h.arm(item, fmt.Sprintf("%s/%d", pointer, i), name, level, seen)
		}
		return out
	case string:
		switch {
		case v == canary:
			return h.say(pointer, name, level, seen)
		case name == "business_key" || name == "dedupe_key":
			if rest, of := strings.CutPrefix(v, canary); of {
				return h.say(pointer, name, level, seen) + rest
			}
		case strings.HasSuffix(name, "_base64"):
			return base64.StdEncoding.EncodeToString([]byte(h.say(pointer, name, level, seen) + "\x00\xff"))
		}
	}
	return v
}

func (h *hostile) say(pointer, name string, level map[string]int, seen map[string]string) string {
	name = sameAs.Replace(name)
	seen[pointer] = name
	return []string{h.text(name, canary), tame(name), canary}[level[pointer]]
}

// sameAs are names of fields that are compared with those of another name.
var sameAs = strings.NewReplacer("commands", "command_name", "queues", "queue", "required_labels", "labels")

// report lists the fields that accepted no hostile text, and those that accepted it but appear on
// no page.
func (h *hostile) report(shown map[string]bool) (lines []string) {
	for name, ops := range h.refused {
		if !h.planted[name] {
			slices.Sort(ops)
			lines = append(lines, fmt.Sprintf("refused everywhere: %s %q", name, slices.Compact(ops)))
		}
	}
	for name := range h.planted {
		if !shown[name] {
			lines = append(lines, "on no page: "+name)
		}
	}
	slices.Sort(lines)
	return lines
}
