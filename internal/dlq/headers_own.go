package dlq

import "strings"

// Headers that a redrive adds to a record. A letter that comes back (a bounce) is
// recognized by them.
const (
	ownPrefix        = "x-dlq-"
	HeaderMessageID  = ownPrefix + "message-id" // the first letter of the lineage
	HeaderRedriveID  = ownPrefix + "redrive-id" // only of a bulk redrive
	HeaderGeneration = ownPrefix + "generation"
	HeaderAttempt    = ownPrefix + "attempt"
	HeaderRevision   = ownPrefix + "revision" // 0: never edited
	HeaderEdited     = ownPrefix + "edited"   // Drive.EditTag; only of what differs from the original
	HeaderTopic      = ownPrefix + "original-topic"
	HeaderPartition  = ownPrefix + "original-partition"
	HeaderOffset     = ownPrefix + "original-offset"
	HeaderTimestamp  = ownPrefix + "original-timestamp" // RFC 3339
)

// OwnHeader reports whether a header is one of Skald's, which every retry rewrites.
func OwnHeader(name string) bool {
	return len(name) >= len(ownPrefix) && strings.EqualFold(name[:len(ownPrefix)], ownPrefix)
}
