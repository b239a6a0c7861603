package dlqapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/test/apitest"
)

// A redrive skips the letters of a disabled webhook and reports this. The redrive completes, and
// no retry of these letters is counted.
func TestARedriveSkipsLettersOfADisabledWebhook(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.target.answer(200)
	running, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() { defer close(ended); q.driver.Run(running) }()
	defer func() { stop(); <-ended }()
	hooked := func() client.DeadLetter {
		return q.store(dlq.Letter{Source: dlq.FromWebhook, Target: dlq.Target{Kind: dlq.ToWebhook},
			Link: dlq.Link{WebhookID: uuid.New(), DeliveryID: uuid.New()}})
	}
	first, second, other := hooked(), hooked(), q.push(q.toTarget(""))
	ids := `["` + first.ID.String() + `","` + second.ID.String() + `","` + other.ID.String() + `"]`
	made := q.Bulk(`{"action":"retry","ids":` + ids + `,"rate_per_second":1000,"stop_on":{"failures":1},"reason":"r"}`)
	done := q.Until(made.ID, "completed", func(r client.Redrive) bool { return r.State == "COMPLETED" })
	if done.Done != 1 || done.Skipped != 2 || done.Failed != 0 || done.Sent != 1 {
		t.Errorf("done %d, skipped %d, failed %d, sent %d", done.Done, done.Skipped, done.Failed, done.Sent)
	}
	var items client.RedriveItemList
	q.Send("GET", apitest.RedrivesPath+"/"+made.ID.String()+"/items?state=SKIPPED", "").Into(&items)
	if len(items.Items) != 2 || items.Items[0].Detail == nil || !strings.Contains(*items.Items[0].Detail, "disabled") {
		t.Errorf("passed over: %+v", items.Items)
	}
	for _, l := range []client.DeadLetter{first, second} {
		if got := q.Send("GET", at(l), "").Letter(http.StatusOK); got.Status != client.DeadLetterStatusPENDING ||
			got.RetryCount != 0 {
			t.Errorf("the letter is %s after %d retries", got.Status, got.RetryCount)
		}
	}
}
