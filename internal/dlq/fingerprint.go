package dlq

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

// What differs between two errors of one kind: quoted texts, ids, times,
// addresses, numbers. Longest first.
var varying = regexp.MustCompile(`"[^"\n]*"|'[^'\n]*'` + "|`[^`\n]*`" +
	`|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}` +
	`|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?` +
	`|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b|\b0x[0-9a-fA-F]+\b|@[0-9a-fA-F]{4,}\b|\b[0-9a-fA-F]*\d[0-9a-fA-F]*\b|\d+(?:[.,]\d+)*`)

const maxNormalised = 500

// Normalised returns an error's message with all that varies replaced by #,
// on one line, at most 500 bytes.
func Normalised(message string) string {
	s := varying.ReplaceAllString(message[:min(len(message), 4*maxNormalised)], "#")
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "")
	if len(s) > maxNormalised {
		s = strings.ToValidUTF8(s[:maxNormalised], "")
	}
	return s
}

// Fingerprint names the kind of an error: who failed (the consumer group, or
// the topic when none is known), the error's type, its normalised message and
// the first five frames of its stack. 32 hex digits.
func Fingerprint(topic, group string, f Failure) string {
	who := group
	if who == "" {
		who = topic
	}
	h := sha256.New()
	for _, part := range append([]string{who, f.Type, Normalised(f.Message)}, frames(f.Stack)...) {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// frames returns the first five lines of a stack that look like frames, without
// line numbers and addresses.
func frames(stack string) []string {
	var out []string
	for line := range strings.SplitSeq(stack, "\n") {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "at ") && !strings.Contains(line, ".go:") && !strings.HasPrefix(line, "File ") {
			continue
		}
		if out = append(out, Normalised(line)); len(out) == 5 {
			break
		}
	}
	return out
}
