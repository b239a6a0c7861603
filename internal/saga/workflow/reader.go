package workflow

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/strictjson"
)

// Limits on what an error response lists and quotes, so that a malicious definition cannot make the
// response larger than the definition.
const (
	maxProblems = 100
	maxPointer  = 512  // bytes
	maxMessage  = 1000 // bytes
)

// reader walks a decoded document and collects its mistakes with their pointers.
type reader struct{ problems []fault.Field }

func (r *reader) fail(at, code, format string, args ...any) {
	if len(r.problems) == maxProblems {
		return
	}
	message := clip(fmt.Sprintf(format, args...), maxMessage)
	r.problems = append(r.problems, fault.Field{Pointer: clip(at, maxPointer), Code: code, Message: message})
}

// clip cuts s to at most n bytes without splitting a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// object returns v as an object, and reports keys that are not in known.
func (r *reader) object(v any, at string, known ...string) map[string]any {
	m, ok := v.(map[string]any)
	if !ok {
		r.fail(at, CodeInvalid, "must be an object")
		return nil
	}
	for _, key := range sortedKeys(m) {
		if !slices.Contains(known, key) {
			r.fail(at+"/"+strictjson.Token(key), CodeInvalid, "unknown field %q; the fields allowed here are %v", key, known)
		}
	}
	return m
}

func (r *reader) text(m map[string]any, at, key string, maxLen int) string {
	v, there := m[key]
	if !there || v == nil {
		return ""
	}
	s, ok := v.(string)
	switch {
	case !ok:
		r.fail(at+"/"+key, CodeInvalid, "must be a string")
	case len([]rune(s)) > maxLen:
		r.fail(at+"/"+key, CodeInvalid, "must have at most %d characters", maxLen)
	case strings.ContainsRune(s, 0): // YAML can express it, but PostgreSQL cannot store it
		r.fail(at+"/"+key, CodeInvalid, "must not contain the NUL character")
	}
	return s
}

// integer returns m[key], or 0 if it is absent, and reports values outside [low, high].
func (r *reader) integer(m map[string]any, at, key string, low, high int64) int64 {
	f, there := r.number(m, at, key, float64(low), float64(high))
	if there && f != math.Trunc(f) {
		r.fail(at+"/"+key, CodeInvalid, "must be a whole number")
	}
	return int64(f)
}

func (r *reader) number(m map[string]any, at, key string, low, high float64) (value float64, there bool) {
	v, there := m[key]
	if !there || v == nil {
		return 0, false
	}
	var f float64
	switch n := v.(type) {
	case json.Number:
		f, _ = n.Float64()
	case int:
		f = float64(n)
	case int64:
		f = float64(n)
	case uint64:
		f = float64(n)
	case float64:
		f = n
	default:
		r.fail(at+"/"+key, CodeInvalid, "must be a number")
		return 0, false
	}
	if !(f >= low && f <= high) { // also catches NaN, which YAML can express
		r.fail(at+"/"+key, CodeInvalid, "must be between %s and %s", plain(low), plain(high))
		return 0, false
	}
	return f, true
}

func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// texts returns m[key] as a list of strings, or nil if it is absent or invalid.
func (r *reader) texts(m map[string]any, at, key string) []string {
	v, there := m[key]
	if !there || v == nil {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		r.fail(at+"/"+key, CodeInvalid, "must be a list of strings")
		return nil
	}
	out := make([]string, 0, len(list))
	for i, e := range list {
		s, ok := e.(string)
		if !ok {
			r.fail(fmt.Sprintf("%s/%s/%d", at, key, i), CodeInvalid, "must be a string")
			continue
		}
		out = append(out, s)
	}
	if len(out) < len(list) {
		return nil
	}
	return out
}

func (r *reader) policy(m map[string]any, at, key string) *retry.Policy {
	v, there := m[key]
	if !there || v == nil {
		return nil
	}
	at += "/" + key
	o := r.object(v, at, "max_attempts", "initial_interval_ms", "max_interval_ms", "multiplier", "jitter", "retry_on")
	p := &retry.Policy{
		MaxAttempts:       int(r.integer(o, at, "max_attempts", 1, 1_000_000)),
		InitialIntervalMS: r.integer(o, at, "initial_interval_ms", 1, 86_400_000),
		MaxIntervalMS:     r.integer(o, at, "max_interval_ms", 1, 604_800_000),
	}
	p.Multiplier, _ = r.number(o, at, "multiplier", 1, 100)
	if j, given := r.number(o, at, "jitter", 0, 1); given {
		p.Jitter = &j
	}
	if words := r.texts(o, at, "retry_on"); words != nil {
		p.RetryOn = []retry.Class{}
		for i, w := range words {
			if !slices.Contains(retry.Classes, retry.Class(w)) {
				r.fail(fmt.Sprintf("%s/retry_on/%d", at, i), CodeInvalid, "must be one of %v", retry.Classes)
			}
			p.RetryOn = append(p.RetryOn, retry.Class(w))
		}
	}
	return p
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
