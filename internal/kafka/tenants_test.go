package kafka_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/event/publication"
)

// Events of tenants that are not listed are kept, and are sent once the tenants are listed.
func TestOnlyTheEventsOfTheTenantsThatAreNamedArePublished(t *testing.T) {
	w := newWorld(t)
	named, silent := uuid.New(), uuid.New()
	w.sagas(silent, 5)
	w.sagas(named, 5)
	stop := w.publisher("a", func(c *publication.Config) { c.Tenants = []uuid.UUID{uuid.New(), named} })
	w.wantTopic(w.expected(named))
	w.sagas(silent, 5)
	w.sagas(named, 5) // published after a look at what the silent one has
	for _, r := range w.wantTopic(w.expected(named)) {
		if got := header(r, "tenant_id"); got != named.String() {
			t.Fatalf("an event of %s is published", got)
		}
	}
	stop()
	w.publisher("b")
	w.wantTopic(w.expected(named, silent))
}
