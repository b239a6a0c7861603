package dlqapi_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpapi"
)

// outrun is a store whose policies and groups are changed by others just before every change.
type outrun struct{ dlq.Overview }

func (outrun) PutPolicy(context.Context, dlq.Policy, operator.Action) error {
	return fault.New(fault.Precondition, dlq.CodeStale, "it is at another version")
}

func (outrun) ChangeGroup(context.Context, dlq.Group, operator.Action) error {
	return fault.New(fault.Precondition, dlq.CodeStale, "it is at another version")
}

// A change that is always too late is a conflict of the clients, not an outage of the server.
func TestAChangeThatAlwaysComesTooLateIsAConflict(t *testing.T) {
	t.Parallel()
	q := newQueue(t, func(c *httpapi.Config) { c.DeadLetters.Overview = outrun{c.DeadLetters.Overview} })
	l := q.push(q.toTarget(""))
	for path, body := range map[string]string{
		"/api/v1/dlq/topics/orders/policy":    `{"max_retries":4}`,
		"/api/v1/dlq/policy":                  `{"max_retries":4}`,
		"/api/v1/dlq/groups/" + l.Fingerprint: `{"note":"n"}`,
	} {
		r := q.Send("PATCH", path, body)
		if p := r.Wants(http.StatusConflict, "REQ_KEEPS_CHANGING"); r.Header.Get("Retry-After") != "1" ||
			!strings.Contains(p.Detail, "nothing was done") {
			t.Errorf("%s: %v %+v", path, r.Header, p)
		}
	}
}

// If many clients change one policy at the same time, each change is either stored once or
// rejected.
func TestSixWritersOfOnePolicy(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t)
	const policy = "/api/v1/dlq/topics/orders/policy"
	var writers sync.WaitGroup
	var mu sync.Mutex
	stored := 0
	for i := range 6 {
		writers.Go(func() {
			r := e.Send("PATCH", policy, `{"max_retries":`+strconv.Itoa(i+1)+`}`)
			mu.Lock()
			defer mu.Unlock()
			switch r.Status {
			case http.StatusOK:
				stored++
			case http.StatusConflict:
			default:
				t.Errorf("writer %d: %d %s", i, r.Status, r.Body)
			}
		})
	}
	writers.Wait()
	if tag := e.Send("GET", policy, "").Header.Get("ETag"); stored == 0 || tag != `"`+strconv.Itoa(stored)+`"` {
		t.Errorf("%d changes were stored, the policy is at version %s", stored, tag)
	}
}
