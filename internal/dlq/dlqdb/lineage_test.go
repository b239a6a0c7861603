package dlqdb_test

import (
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// However a letter of a lineage becomes due again, its wait takes into account how often the
// lineage came back. Statements that read only a part of a letter read this as well.
func TestTheWaitOfALineageIsTheSameAfterEveryKindOfFailure(t *testing.T) {
	t.Parallel()
	const generation = 2
	for name, tt := range map[string]struct {
		fail func(t *testing.T, m pgtest.LetterQueue, d dlq.Drive)
		want time.Duration
	}{
		"its retry failed": {func(t *testing.T, m pgtest.LetterQueue, d dlq.Drive) { m.End(t, d, dlq.FailedDrive) }, 8 * time.Minute},
		"its node died after sending it": {func(t *testing.T, m pgtest.LetterQueue, d dlq.Drive) {
			m.HandOver(t, d)
			m.Expire(t)
			if n, err := m.Queue.Reclaim(t.Context(), 10, pgtest.Chance); err != nil || n != 1 {
				t.Fatalf("reclaimed %d, %v", n, err)
			}
		}, 8 * time.Minute},
		"its retry was withdrawn": {func(t *testing.T, m pgtest.LetterQueue, d dlq.Drive) { m.End(t, d, dlq.Withdrawn) }, 4 * time.Minute},
		"a policy held it for a while": {func(t *testing.T, m pgtest.LetterQueue, d dlq.Drive) {
			m.End(t, d, dlq.Withdrawn)
			pgtest.Execute(t, m.DB.SQL(), `UPDATE dlq.dlq_messages SET updated_at = clock_timestamp(), held_retry_at = now(), next_retry_at = NULL`)
			if n, err := m.Queue.Release(t.Context(), 10, pgtest.Chance); err != nil || n != 1 {
				t.Fatalf("released %d, %v", n, err)
			}
		}, 2 * time.Minute}, // half of one backoff: they are spread over all of it
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := pgtest.NewLetterQueue(t)
			l := m.PushAll(t, m.Due(func(l *dlq.Letter) { l.RootID, l.Generation = pgtest.NewID(), generation }))[0]
			tt.fail(t, m, m.ClaimDue(t, 1)[0])
			// The time between two readings of the clock is much shorter than the differences
			// between waits.
			l = m.Read(t, l.ID)
			if l.NextRetryAt == nil {
				t.Fatalf("%s, without a retry", l.Status)
			}
			if wait := l.NextRetryAt.Sub(l.UpdatedAt); wait < tt.want-tt.want/4 || wait > tt.want+tt.want/4 {
				t.Errorf("it waits %v, want %v", wait, tt.want)
			}
		})
	}
}
