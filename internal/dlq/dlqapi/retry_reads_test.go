package dlqapi_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/httpapi"
)

// counted counts reads.
type counted struct {
	dlq.Letters
	reads map[string]int
}

func (c *counted) Get(ctx context.Context, tenant, id uuid.UUID) (dlq.Letter, error) {
	c.reads["letter"]++
	return c.Letters.Get(ctx, tenant, id)
}

func (c *counted) Revisions(ctx context.Context, tenant, id uuid.UUID) ([]dlq.Revision, error) {
	c.reads["revisions"]++
	return c.Letters.Revisions(ctx, tenant, id)
}

// TestARetryReadsOnceBeforeItClaims checks that everything needed for the decision is read once,
// and that the claim has the version that was read. The response shows the letter as the drive left
// it, which requires another read.
func TestARetryReadsOnceBeforeItClaims(t *testing.T) {
	t.Parallel()
	reads, before := map[string]int{}, map[string]int{}
	q := newQueue(t, func(c *httpapi.Config) {
		d := c.DeadLetters
		d.Letters = &counted{Letters: d.Letters, reads: reads}
		policyOf, drive := d.PolicyOf, d.Drive
		d.PolicyOf = func(ctx context.Context, tenant uuid.UUID, topic string) (dlq.Policy, error) {
			reads["policy"]++
			return policyOf(ctx, tenant, topic)
		}
		d.Drive = func(ctx context.Context, claim dlq.Claim) (dlq.Finish, error) {
			for what, n := range reads {
				before[what] = n
			}
			return drive(ctx, claim)
		}
	})
	l := q.push(q.toTarget(`"payload":{"n":1},"max_retries":9`))
	q.target.answer(500)
	for _, tt := range []struct {
		body string
		want map[string]int
	}{
		{"", map[string]int{"letter": 1, "policy": 1}},
		{`{"payload_patch":[{"op":"replace","path":"/n","value":2}]}`, map[string]int{"letter": 1, "policy": 1, "revisions": 1}},
		{`{"headers_patch":[{"op":"set","name":"a","value":"1"}]}`, map[string]int{"letter": 1, "policy": 1, "revisions": 1}},
		{"", map[string]int{"letter": 1, "policy": 1, "revisions": 1}}, // it sends its last revision
		{`{"target":{"method":"PUT"}}`, map[string]int{"letter": 1, "policy": 1, "revisions": 1}},
	} {
		clear(reads)
		clear(before)
		q.Send("POST", at(l)+"/retry", tt.body).Wants(502, "DLQ_PROCESS_FAILED")
		if diff := cmp.Diff(tt.want, before); diff != "" {
			t.Errorf("%s: reads before the claim (-want +got):\n%s", tt.body, diff)
		}
		if reads["letter"] != 2 {
			t.Errorf("%s: the letter is read %d times in all, want before and after", tt.body, reads["letter"])
		}
	}
}
