package dlq

import "strings"

// Headers that a redrive adds to a record. They identify a letter that comes back (a bounce).
const (
	ownPrefix        = "x-dlq-"
	HeaderMessageID  = ownPrefix + "message-id" // id of the first letter of the lineage
	HeaderRedriveID  = ownPrefix + "redrive-id" // set only by a bulk redrive
	HeaderGeneration = ownPrefix + "generation"
	HeaderAttempt    = ownPrefix + "attempt"
	HeaderRevision   = ownPrefix + "revision" // 0: never edited
	HeaderEdited     = ownPrefix + "edited"   // Drive.EditTag; only if the content differs from the original
	HeaderTopic      = ownPrefix + "original-topic"
	HeaderPartition  = ownPrefix + "original-partition"
	HeaderOffset     = ownPrefix + "original-offset"
	HeaderTimestamp  = ownPrefix + "original-timestamp" // RFC 3339
)

// OwnHeader reports whether a header is one of Skald's, which every retry rewrites.
func OwnHeader(name string) bool {
	return len(name) >= len(ownPrefix) && strings.EqualFold(name[:len(ownPrefix)], ownPrefix)
}
