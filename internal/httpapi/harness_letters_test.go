package httpapi_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/audit"
	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/dlq/redrive"
	"github.com/skald-saga/skald/internal/dlq/redrivedb"
	"github.com/skald-saga/skald/internal/dlq/targets"
	"github.com/skald-saga/skald/internal/egress"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// newQueueEdge starts an edge with a dead-letter queue on PostgreSQL, whose
// loops run. Letters are driven over HTTP, none by themselves, and there is no
// Kafka.
func newQueueEdge(t *testing.T, change ...func(*httpapi.Config)) *edge {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: testdb.DSN(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	loopback, err := egress.NewPolicy(nil, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	web := targets.NewHTTP(targets.HTTPConfig{Policy: loopback, Version: "1.2.3", Now: time.Now, Log: quiet})
	t.Cleanup(web.Close)
	policy := dlq.DefaultPolicy
	policy.AutoRetry = false
	store, loops := dlqdb.NewLetters(db, policy), dlqdb.NewQueue(db, policy)
	bulk := redrivedb.NewRedrives(db, loops)
	forbidden := func(topic string) bool { return strings.HasSuffix(topic, ".dlq") }
	driver := redrive.New(redrive.Config{
		Queue: loops, Redrives: bulk, Forbidden: forbidden, Now: time.Now, Log: quiet, Poll: 100 * time.Millisecond,
		Drivers: map[dlq.TargetKind]redrive.Driver{dlq.ToHTTP: web},
	})
	running, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		driver.Run(running)
	}()
	t.Cleanup(func() { stop(); <-ended })
	return newEdge(t, append([]func(*httpapi.Config){func(c *httpapi.Config) {
		c.Now, c.Limits.MaxWait = time.Now, time.Minute
		c.DeadLetters = &httpapi.DeadLetters{
			Letters: store, Redrives: bulk, Overview: store, Actions: auditdb.NewActions(db), VerifyActions: verified(auditdb.NewActions(db)),
			RedriveLimits: dlq.RedriveLimits{DefaultRate: 50, MaxRate: 5000, Bulk: 1000}, WakeRedrives: driver.Wake,
			Drive: driver.Now, Ways: driver.Ways(), PolicyOf: loops.PolicyOf,
			UndoneByHand: func(_ context.Context, l dlq.Letter, _ operator.By) (dlq.Letter, error) { return l, nil },
		}
	}}, change...)...)
}

// kept returns the reason of the only action on a subject; "" is none given.
func (e *edge) kept(kind, subject string) string {
	e.t.Helper()
	var list client.ActionList
	e.send("GET", "/api/v1/audit?kind="+kind+"&verb=create&subject="+subject, "").into(&list)
	if len(list.Actions) != 1 {
		e.t.Fatalf("%s %s has the actions %+v", kind, subject, list.Actions)
	}
	if list.Actions[0].Reason == nil {
		return ""
	}
	return *list.Actions[0].Reason
}

// group returns the fingerprint of the group that was seen last.
func (e *edge) group(header ...string) string {
	e.t.Helper()
	var list client.DeadLetterGroupList
	if e.send("GET", groups, "", header...).into(&list); len(list.Groups) == 0 {
		e.t.Fatal("there is no group")
	}
	return list.Groups[0].Fingerprint
}

// pushed stores n letters of a topic for a target and returns their ids, oldest
// first. payload is a format for the number of each.
func (e *edge) pushed(topic, url, payload string, n int, header ...string) []uuid.UUID {
	e.t.Helper()
	ids := make([]uuid.UUID, 0, n)
	for first := 0; first < n; first += 500 {
		var letters []string
		for i := first; i < min(n, first+500); i++ {
			letters = append(letters, fmt.Sprintf(`{"original_topic":%q,"error_message":"connection to 10.0.0.%d refused","error_type":"IOError","payload":%s,"target":{"kind":"http","url":%q}}`,
				topic, i%250, fmt.Sprintf(payload, i), url))
		}
		r := e.send("POST", "/api/v1/dlq/messages/batch", `{"messages":[`+strings.Join(letters, ",")+`]}`, header...)
		var out client.DeadLetterResults
		if r.into(&out); r.status != http.StatusOK || len(out.Results) != len(letters) {
			e.t.Fatalf("push: %d %.500s", r.status, r.body)
		}
		for _, result := range out.Results {
			if result.Problem != nil {
				e.t.Fatalf("push: %+v", *result.Problem)
			}
			ids = append(ids, *result.ID)
		}
	}
	return ids
}

// bulk asks for a redrive, which must be accepted.
func (e *edge) bulk(body string, header ...string) client.Redrive {
	e.t.Helper()
	r := e.send("POST", redrives, body, header...)
	var out client.Redrive
	if r.into(&out); r.status != http.StatusAccepted || r.header.Get("Location") != redrives+"/"+out.ID.String() || r.header.Get("ETag") != `"1"` {
		e.t.Fatalf("redrive %s: %d %v %s", body, r.status, r.header, r.body)
	}
	return out
}

// until reads a redrive until it is as it should be.
func (e *edge) until(id uuid.UUID, what string, is func(client.Redrive) bool) client.Redrive {
	e.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		var out client.Redrive
		e.send("GET", redrives+"/"+id.String(), "").into(&out)
		if is(out) {
			return out
		}
		if time.Now().After(deadline) {
			e.t.Fatalf("the redrive is not %s: %+v", what, out)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (r reply) wants2xx() {
	r.t.Helper()
	if r.status/100 != 2 {
		r.t.Fatalf("%d %s", r.status, r.body)
	}
}

// letter reads a letter as its answer has it.
func (r reply) letter(status int) client.DeadLetter {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("%d %s, want %d", r.status, r.body, status)
	}
	var l client.DeadLetter
	r.into(&l)
	return l
}

// messages reads a list.
func (r reply) messages() client.DeadLetterList {
	r.t.Helper()
	if r.status != http.StatusOK {
		r.t.Fatalf("%d %s", r.status, r.body)
	}
	var list client.DeadLetterList
	r.into(&list)
	return list
}

const groups = "/api/v1/dlq/groups"

const redrives = "/api/v1/dlq/redrives"

func verified(record saga.Sealed) func(context.Context, uuid.UUID, int64, int) (saga.Verification, error) {
	return func(ctx context.Context, tenant uuid.UUID, from int64, limit int) (saga.Verification, error) {
		return audit.Verify(ctx, record, tenant, from, limit)
	}
}
