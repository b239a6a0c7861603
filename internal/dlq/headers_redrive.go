package dlq

import (
	"strconv"
	"time"

	"github.com/google/uuid"
)

// RedriveHeaders returns the headers of the record that drives a letter to Kafka: the letter's
// headers in order, including repeated ones and without those left out (Left), followed by Skald's.
func RedriveHeaders(d *Drive) []Header { return d.redriveHeaders(true) }

// FewRedriveHeaders is RedriveHeaders without those of Skald's headers that are only informative.
// It is used for a record that would be too large with them. The remaining headers identify the
// letter when it comes back, and show whether its content differs from the original.
func FewRedriveHeaders(d *Drive) []Header { return d.redriveHeaders(false) }

func (d *Drive) redriveHeaders(all bool) []Header {
	left := LeftOf(d.Send.Headers, d.KeepHeaders)
	out := make([]Header, 0, len(d.Send.Headers)+10)
	for _, h := range d.Send.Headers {
		if !left.Out(h.Name) {
			out = append(out, h)
		}
	}
	add := func(name, value string) { out = append(out, Header{Name: name, Value: []byte(value)}) }
	add(HeaderMessageID, d.RootID.String())
	if d.RedriveID != uuid.Nil {
		add(HeaderRedriveID, d.RedriveID.String())
	}
	add(HeaderGeneration, strconv.Itoa(d.Generation))
	if all {
		add(HeaderAttempt, strconv.Itoa(d.Number))
		add(HeaderRevision, strconv.Itoa(d.Revision))
	}
	if tag := d.EditTag(); tag != "" {
		add(HeaderEdited, tag)
	}
	if all || d.To.Topic != "" && d.To.Topic != d.OriginalTopic { // a consumer names the topic that it read from
		add(HeaderTopic, d.OriginalTopic)
	}
	if !all {
		return out
	}
	if d.Origin.Partition != nil {
		add(HeaderPartition, strconv.FormatInt(int64(*d.Origin.Partition), 10))
	}
	if d.Origin.Offset != nil {
		add(HeaderOffset, strconv.FormatInt(*d.Origin.Offset, 10))
	}
	if d.Origin.Timestamp != nil {
		add(HeaderTimestamp, d.Origin.Timestamp.UTC().Format(time.RFC3339Nano))
	}
	return out
}
