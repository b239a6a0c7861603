package dlq

import (
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// Headers that a redrive adds to a record, by which a letter that comes back is
// recognized (a bounce).
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
)

// RedriveHeaders returns the headers of the record that drives a letter to
// Kafka: what is to be sent, in its order and with repetitions, without any
// x-dlq- header of an earlier redrive, and ours at the end.
func RedriveHeaders(d *Drive) []Header {
	out := make([]Header, 0, len(d.Send.Headers)+9)
	for _, h := range d.Send.Headers {
		if !OwnHeader(h.Name) {
			out = append(out, h)
		}
	}
	add := func(name, value string) { out = append(out, Header{Name: name, Value: []byte(value)}) }
	add(HeaderMessageID, d.RootID.String())
	if d.RedriveID != uuid.Nil {
		add(HeaderRedriveID, d.RedriveID.String())
	}
	add(HeaderGeneration, strconv.Itoa(d.Generation))
	add(HeaderAttempt, strconv.Itoa(d.Number))
	add(HeaderRevision, strconv.Itoa(d.Revision))
	if tag := d.EditTag(); tag != "" {
		add(HeaderEdited, tag)
	}
	add(HeaderTopic, d.OriginalTopic)
	if d.Origin.Partition != nil {
		add(HeaderPartition, strconv.FormatInt(int64(*d.Origin.Partition), 10))
	}
	if d.Origin.Offset != nil {
		add(HeaderOffset, strconv.FormatInt(*d.Origin.Offset, 10))
	}
	return out
}

// OwnHeader tells whether a header is one of Skald's, which every retry rewrites.
func OwnHeader(name string) bool {
	return len(name) >= len(ownPrefix) && strings.EqualFold(name[:len(ownPrefix)], ownPrefix)
}
