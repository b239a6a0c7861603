package dlq

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Fingerprint identifies a kind of error by the consumer group (or the topic if the group is
// unknown), the type of the error, its normalised message and the first five frames of its stack.
// It returns 32 hex digits.
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
