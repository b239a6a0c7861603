package dlq

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of policies.
const (
	maxInterval    = 7 * 24 * 60 * 60 * 1000 // ms (a week)
	maxMultiplier  = 100
	maxRetention   = 3650  // days
	maxArchive     = 36500 // days
	maxGenerations = 100
	maxListed      = 100 // paths or patterns
)

// CheckPolicy returns what is wrong with a policy: a fault of kind Invalid with a field for each
// mistake, or nil if there is none.
func CheckPolicy(p *Policy) error {
	var w mistakes
	between := func(pointer string, n, low, high int64) {
		if n < low || n > high {
			w.Add(pointer, "out_of_range", "must be from %d to %d", low, high)
		}
	}
	if utf8.RuneCountInString(p.Topic) > MaxTopic || !storable(p.Topic) {
		w.Add("/topic", "too_long", "must be UTF-8 text of at most %d characters", MaxTopic)
	}
	if p.HoldAll && p.Topic != "" {
		w.Add("/hold_all", "excluded", "is allowed only in the default policy: to hold the letters of one topic, set auto_retry to false")
	}
	between("/max_retries", int64(p.MaxRetries), 0, MaxRetries)
	b := &p.Backoff
	between("/backoff/initial_interval_ms", b.InitialIntervalMS, 1, maxInterval)
	between("/backoff/max_interval_ms", b.MaxIntervalMS, max(1, min(b.InitialIntervalMS, maxInterval)), maxInterval)
	if !(b.Multiplier >= 1 && b.Multiplier <= maxMultiplier) {
		w.Add("/backoff/multiplier", "out_of_range", "must be from 1 to %d", maxMultiplier)
	}
	if b.Jitter == nil || !(*b.Jitter >= 0 && *b.Jitter <= 1) {
		w.Add("/backoff/jitter", "out_of_range", "must be from 0 to 1")
	}
	between("/retention_days", int64(p.RetentionDays), 1, maxRetention)
	between("/archive_days", int64(p.ArchiveDays), 1, maxArchive)
	between("/max_generations", int64(p.MaxGenerations), 0, maxGenerations)
	for pointer, n := range map[string]int64{"/alert/age_ms": p.Alert.AgeMS, "/alert/count": p.Alert.Count,
		"/alert/rate": p.Alert.Rate} {
		if n < 0 {
			w.Add(pointer, "out_of_range", "must be 0 or more")
		}
	}
	w.list("/redact", p.Redact, MaxWord, "a dotted path, such as card.number", func(s string) bool {
		return !slices.Contains(strings.Split(s, "."), "")
	})
	w.list("/allowed_targets", p.AllowedTargets, maxURL, "a topic, or an http or https URL, optionally with *, ? or [a-z]", targetPattern)
	w.list("/keep_headers", p.KeepHeaders, MaxWord, "a header name, or a prefix followed by *, but not x-dlq-*", keepable)
	return w.fault()
}

// targetPattern reports whether a pattern may match a topic or URL that a letter can be sent to. It
// checks only the text before the first * ? [ or \.
func targetPattern(s string) bool {
	if _, err := path.Match(s, ""); err != nil || s == "" {
		return false
	}
	plain := s
	if i := strings.IndexAny(s, `*?[\`); i >= 0 {
		if plain = s[:i]; plain == "" || CanBeTopic(plain) || plain == "." || plain == ".." {
			return true
		}
		for _, scheme := range []string{"http://", "https://"} {
			if strings.HasPrefix(plain, scheme) || strings.HasPrefix(scheme, plain) {
				return true
			}
		}
		return false
	}
	if strings.Contains(plain, "://") {
		return TargetMistakes("", Target{Kind: ToHTTP, URL: plain}) == nil
	}
	return CanBeTopic(plain)
}

func (w *mistakes) list(pointer string, words []string, limit int, form string, fits func(string) bool) {
	if len(words) > maxListed {
		w.Add(pointer, "too_many", "must have at most %d entries", maxListed)
	}
	for i, s := range words {
		if len(s) > limit || !storable(s) || !fits(s) {
			w.Add(fmt.Sprintf("%s/%d", pointer, i), "invalid", "must be %s (at most %d bytes)", form, limit)
		}
	}
}
