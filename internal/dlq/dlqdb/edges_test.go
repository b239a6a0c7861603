package dlqdb

import (
	"slices"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/dlq"
)

func TestStatementsFollowTheTransitionTable(t *testing.T) { //nolint:paralleltest // it changes the table
	for _, tt := range []struct {
		name, statement, want string
	}{
		{"what is due", claimDue, "WHERE m.status = 'PENDING' AND m.next_retry_at <="},
		{"what is due, once more", claimDue, "m.id = due.id AND m.status || '' = 'PENDING' RETURNING"},
		{"locking ends", lockFinished.Text, "WHERE m.status || '' = 'RETRYING' AND m.retry_token = f.token"},
		{"storing ends", finishLetters.Text, "m.id = f.id AND m.status || '' = 'RETRYING' AND m.retry_token"},
		{"who keeps a key waiting", OlderOfKey, "AND o.ordered AND o.status IN ('PENDING', 'RETRYING')"},
		{"what is due and held", claimDue, "AND NOT (m.source IN ('KAFKA', 'REST') AND NOT m.retry_asked AND ("},
		{"parking", parkHeld, "WHERE (w.source IN ('KAFKA', 'REST') AND NOT w.retry_asked AND ("},
		{"parking what is due", parkHeld, "WHERE m.status = 'PENDING' AND m.next_retry_at <="},
		{"parking, once more", parkHeld, "m.id = h.id AND m.status || '' = 'PENDING' AND coalesce(m.next_retry_at"},
		{"what is held no more", freedLetters, "WHERE m.status = 'PENDING' AND m.held_retry_at IS NOT NULL "},
		{"lost retries", lostRetries, "WHERE m.status = 'RETRYING' AND m.retry_lease_until < now()"},
		{"what came back", markBouncedLetters.Text, "m.status || '' = 'RESOLVED' AND coalesce(m.resolution, '') IN ('REDRIVEN', 'CONFIRMED') RETURNING"},
	} {
		if !strings.Contains(strings.Join(strings.Fields(tt.statement), " "), tt.want) {
			t.Errorf("%s: %q is not in it: %s", tt.name, tt.want, tt.statement)
		}
	}
	all := dlq.Edges
	defer func() { dlq.Edges = all }()
	for _, on := range []dlq.Trigger{dlq.Claimed, dlq.ForcedClaim, dlq.CameBack, dlq.SourceSkipped, dlq.SourceGone} {
		before := Leaves("m.status", on)
		for i, e := range all {
			if e.On != on {
				continue
			}
			dlq.Edges = slices.Delete(slices.Clone(all), i, i+1)
			if after := Leaves("m.status", on); after == before || strings.Contains(after, string(e.From)) {
				t.Errorf("without the edge from %s on %q a statement says %q", e.From, on, after)
			}
		}
		dlq.Edges = all
	}
}
