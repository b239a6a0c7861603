package dlq_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
)

func TestATopicsIDIsWrittenAsKafkasToolsDo(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("e2861e4b-1f8c-4c5d-9f0a-7b61c4d03a52")
	place := dlq.Position{Topic: "orders.dlq", TopicID: id}
	if got := place.ID(); got != "4oYeSx-MTF2fCnthxNA6Ug" {
		t.Errorf("it is %q", got)
	}
	if got, err := dlq.ParseTopicID(place.ID()); got != id || err != nil {
		t.Errorf("read back as %s, %v", got, err)
	}
	for _, s := range []string{"x", "4oYeSx-MTF2fCnthxNA6Uh", "4oYeSx+MTF2fCnthxNA6Ug", "4oYeSx-MTF2fCnthxNA6Ug=="} {
		if got, err := dlq.ParseTopicID(s); err == nil {
			t.Errorf("%q is read as %s", s, got)
		}
	}
	if got, err := dlq.ParseTopicID(""); got != uuid.Nil || err != nil {
		t.Errorf("none is read as %s, %v", got, err)
	}
	l := dlq.Letter{Content: dlq.Content{Payload: []byte("a")}}
	if got := (dlq.Position{TopicID: l.Digest(time.Time{})}); got.KnownTopic() != uuid.Nil || got.ID() != "" {
		t.Errorf("the digest of a record is taken for a topic's id: %v", got)
	}
}
