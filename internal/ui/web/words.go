package web

import (
	"fmt"
	"html/template"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Ago formats a time relative to now, as a person would say it: "3 h ago", "in 4 min".
func Ago(now, t time.Time) string {
	d := now.Sub(t)
	if d < 0 {
		return "in " + Duration(max(-d, time.Second).Truncate(time.Second))
	}
	if d < time.Second {
		return "just now"
	}
	return Duration(d.Truncate(time.Second)) + " ago"
}

// When formats a clock time (UTC), with the day unless that is today.
func When(now, t time.Time) string {
	now, t = now.UTC(), t.UTC()
	if now.Year() == t.Year() && now.YearDay() == t.YearDay() {
		return t.Format("15:04:05") + " UTC"
	}
	return t.Format("2006-01-02 15:04:05") + " UTC"
}

// Moment formats a time in a sequence: the clock time (UTC) for the first one, and the time since
// the first one for the others.
func Moment(first, t time.Time) string {
	switch d := t.Sub(first); {
	case d == 0:
		return t.UTC().Format("15:04:05.000")
	case d < 0:
		return "−" + Duration(-d)
	default:
		return "+" + Duration(d)
	}
}

// Stamp formats a time for programs, such as in the attribute of an element.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// Minute formats a time in a table whose rows are minutes.
func Minute(t time.Time) string { return t.UTC().Format("01-02 15:04") }

// Prose formats a text of the API as a separate sentence, with a capital letter, a full stop, and
// times as people write them.
func Prose(text string) string {
	s := readable(text)
	if s == "" {
		return ""
	}
	s = Capital(s)
	if !strings.ContainsAny(s[len(s)-1:], ".!?:") {
		s += "."
	}
	return s
}

// readable rewrites the times in a text as people write them.
func readable(text string) string {
	return timeInText.ReplaceAllStringFunc(text, func(stamp string) string {
		t, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil {
			return stamp
		}
		return t.UTC().Format("2006-01-02 15:04:05 UTC")
	})
}

// Capital capitalizes the first letter.
func Capital(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return s
	}
	return string(unicode.ToUpper(first)) + s[size:]
}

var timeInText = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// Part is a part of a text. It consists of words, or of a thing that the text names, with the path
// of its page below the base.
type Part struct{ Text, Kind, ID, Path string }

var namesThing = regexp.MustCompile(
	`\b(run|saga|redrive|letter|worker) ([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b`)

var pagesOfThings = map[string]string{
	"run": "/ui/runs/", "saga": "/ui/sagas/", "redrive": "/ui/redrives/", "letter": "/ui/dlq/letters/",
	"worker": "/ui/workers/",
}

// Named splits a text of the API into parts, so that the things in it can be links. Times are
// written as people write them.
func Named(text string) (parts []Part) {
	text = readable(text)
	at := 0
	for _, m := range namesThing.FindAllStringSubmatchIndex(text, -1) {
		kind, id := text[m[2]:m[3]], text[m[4]:m[5]]
		parts = append(parts, Part{Text: text[at:m[0]]}, Part{Kind: kind, ID: id, Path: pagesOfThings[kind] + id})
		at = m[1]
	}
	return append(parts, Part{Text: text[at:]})
}

// Duration formats d in at most two units. The smaller unit is used only if there are fewer than
// ten of the larger one, except that minutes are used below a day, so that nearly twelve hours are
// not shown as eleven.
func Duration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "0 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', -1, 64) + " s"
	}
	units := []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}
	for i, u := range units {
		if d < u.size {
			continue
		}
		text := fmt.Sprintf("%d %s", d/u.size, u.name)
		if i+1 < len(units) && (d/u.size < 10 || u.size == time.Hour) {
			if rest := (d % u.size) / units[i+1].size; rest > 0 {
				text += fmt.Sprintf(" %d %s", rest, units[i+1].name)
			}
		}
		return text
	}
	return "0 s"
}

// Milliseconds formats a duration given as a number of milliseconds of any integer type, or a
// pointer to one; nil is empty.
func Milliseconds(n any) string {
	value, ok := integer(n)
	if !ok {
		return ""
	}
	return Duration(time.Duration(value) * time.Millisecond)
}

// integer returns the value of an integer of any type or of a pointer to one, and false for nil and
// anything else.
func integer(n any) (int64, bool) {
	switch n := n.(type) {
	case int:
		return int64(n), true
	case int32:
		return int64(n), true
	case int64:
		return n, true
	case *int:
		if n != nil {
			return int64(*n), true
		}
	case *int32:
		if n != nil {
			return int64(*n), true
		}
	case *int64:
		if n != nil {
			return *n, true
		}
	}
	return 0, false
}

// Count formats an integer of any type, or a pointer to one, with thousands separators, and with a
// "+" if there may be more: "10,000+". nil is empty.
func Count(n any, capped ...bool) string {
	value, ok := integer(n)
	if !ok {
		return ""
	}
	digits := strconv.FormatInt(value, 10)
	var b strings.Builder
	for i, c := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	if len(capped) > 0 && capped[0] {
		b.WriteByte('+')
	}
	return b.String()
}

// Bytes formats a size: "512 B", "1.4 kB", "23 MB". Units are powers of 1,000.
func Bytes(n any) string {
	value, ok := integer(n)
	if !ok {
		return ""
	}
	size := float64(value)
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if size < 1000 {
			if unit == "B" || size >= 10 {
				return fmt.Sprintf("%.0f %s", size, unit)
			}
			return fmt.Sprintf("%.1f %s", size, unit)
		}
		size /= 1000
	}
	return fmt.Sprintf("%.1f TB", size)
}

// Percent formats part as a percentage of whole: "99.4 %", or "–" if whole is zero.
func Percent(part, whole any) string {
	p, _ := integer(part)
	w, _ := integer(whole)
	if w == 0 {
		return "–"
	}
	return strconv.FormatFloat(float64(p)*100/float64(w), 'f', 1, 64) + " %"
}

// Short returns the beginning and the end of an id for use in tables. The full id is one click
// away.
func Short(id any) string {
	s := text(id)
	if len(s) <= 12 {
		return s
	}
	return s[:4] + "…" + s[len(s)-6:]
}

// Words formats a constant of the API as words: "AWAITING_APPROVAL" is "awaiting approval".
func Words(constant any) string {
	words := strings.ToLower(strings.ReplaceAll(text(constant), "_", " "))
	if words == "undetach" { // not a word
		return "reattach"
	}
	return words
}

// text returns the value of any string type, or of a pointer to one.
func text(v any) string {
	at := reflect.ValueOf(v)
	if at.Kind() == reflect.Pointer {
		if at.IsNil() {
			return ""
		}
		return fmt.Sprint(at.Elem().Interface())
	}
	return fmt.Sprint(v)
}

// Clip shortens a key or name for which a list has no room. It must be within a link, which shows
// the full text while it has the focus; hovering over it also shows the full text.
func Clip(v any) template.HTML { return clip(text(v), "") }

// Clipped is Clip for use outside of a link.
func Clipped(v any) template.HTML { return clip(text(v), ` tabindex="0"`) }

// clipAbove is the number of characters of a key that fit into a list.
const clipAbove = 32

func clip(all, focus string) template.HTML {
	shown := template.HTMLEscapeString(all)
	if utf8.RuneCountInString(all) > clipAbove {
		shown = `<span class="clip"` + focus + ` title="` + shown + `">` + shown + `</span>`
	}
	return template.HTML(shown) //nolint:gosec // it is escaped
}

// deref returns the text that s points to, or "" for nil.
func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
