package dlqapi_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/test/apitest"
	"github.com/skald-saga/skald/internal/test/patience"
)

// ledger pushes letters to a topic. It records which were acknowledged, and which were sent only
// after the response to the operation.
type ledger struct {
	e        *apitest.Edge
	topic    string
	body     string // body of a batch
	mu       sync.Mutex
	answered bool               // guarded by mu
	stored   map[uuid.UUID]bool // true: it was sent after the response; guarded by mu
	pause    atomic.Int64       // between two batches of a client
}

const ledgerBatch = 7

func newLedger(e *apitest.Edge, topic, target string, dead bool) *ledger {
	retries := ""
	if dead {
		retries = `,"max_retries":0`
	}
	letter := fmt.Sprintf(`{"original_topic":%q,"error_type":"IOError","error_message":"refused","payload":{},"target":{"kind":"http","url":%q}%s}`,
		topic, target, retries)
	l := &ledger{
		e: e, topic: topic, stored: map[uuid.UUID]bool{},
		body: `{"messages":[` + strings.Repeat(letter+",", ledgerBatch-1) + letter + `]}`,
	}
	l.pause.Store(int64(10 * time.Millisecond)) // the machine also has other work
	return l
}

// push sends one batch.
func (l *ledger) push() {
	l.mu.Lock()
	late := l.answered
	l.mu.Unlock()
	var out client.DeadLetterResults
	l.e.Send("POST", "/api/v1/dlq/messages/batch", l.body, apitest.As("admin")...).Into(&out)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range out.Results {
		if one.ID == nil {
			l.e.T.Errorf("push: %+v", one.Problem)
			return
		}
		l.stored[*one.ID] = late
	}
}

// known returns the letters that are certainly stored, and whether each was late.
func (l *ledger) known() map[uuid.UUID]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.stored)
}

func (l *ledger) answer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered = true
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.stored)
}

// massOperation is a way to request an operation on many letters. ask returns the path and the body
// of the request; ids are those of the known letters.
type massOperation struct {
	name, action string
	ask          func(l *ledger, ids []uuid.UUID) (path, body string)
	approved     bool
}

func massOperations() (all []massOperation) {
	plain := func(action, more string) func(*ledger, []uuid.UUID) (string, string) {
		return func(l *ledger, _ []uuid.UUID) (string, string) {
			return apitest.RedrivesPath, fmt.Sprintf(`{"action":%q,"filter":{"topic":%q},"rate_per_second":5000,"reason":"r"%s}`, action, l.topic, more)
		}
	}
	for _, action := range []string{"retry", "discard", "resolve", "requeue", "delete"} {
		all = append(all,
			massOperation{name: "filter", action: action, ask: plain(action, "")},
			massOperation{name: "as many as are there", action: action, ask: plain(action, `,"expected":1000000`)},
			massOperation{name: "filter by terms", action: action, ask: func(l *ledger, _ []uuid.UUID) (string, string) {
				return apitest.RedrivesPath, fmt.Sprintf(`{"action":%q,"filter":{"topic":"%s*","error_type":"IOError"},"rate_per_second":5000,"reason":"r"}`, action, l.topic)
			}},
			massOperation{name: "group", action: action, ask: func(l *ledger, _ []uuid.UUID) (string, string) {
				return apitest.RedrivesPath, fmt.Sprintf(`{"action":%q,"filter":{"fingerprint":%q},"rate_per_second":5000,"reason":"r"}`, action, l.group())
			}},
			massOperation{name: "ids", action: action, ask: func(_ *ledger, ids []uuid.UUID) (path, body string) {
				return apitest.RedrivesPath, fmt.Sprintf(`{"action":%q,"ids":["%s"],"rate_per_second":5000,"reason":"r"}`, action, joined(ids))
			}},
			massOperation{name: "schedule", action: action, ask: func(l *ledger, ids []uuid.UUID) (string, string) {
				at := time.Now().Add(300 * time.Millisecond).UTC().Format(time.RFC3339Nano)
				return plain(action, `,"scheduled_for":"`+at+`"`)(l, ids)
			}},
			massOperation{name: "approval", action: action, approved: true, ask: plain(action, `,"approval_required":true`)},
			massOperation{name: "approval and schedule", action: action, approved: true,
				ask: func(l *ledger, ids []uuid.UUID) (path, body string) {
					at := time.Now().Add(300 * time.Millisecond).UTC().Format(time.RFC3339Nano)
					return plain(action, `,"approval_required":true,"scheduled_for":"`+at+`"`)(l, ids)
				}},
			massOperation{name: "at a low rate", action: action, ask: func(l *ledger, _ []uuid.UUID) (string, string) {
				return apitest.RedrivesPath, fmt.Sprintf(`{"action":%q,"filter":{"topic":%q},"rate_per_second":100,"order":"oldest","reason":"r"}`, action, l.topic)
			}},
		)
	}
	all = append(all, massOperation{name: "status", action: "delete", ask: func(l *ledger, _ []uuid.UUID) (_, _ string) {
		return apitest.RedrivesPath, fmt.Sprintf(`{"action":"delete","filter":{"topic":%q,"status":["PENDING"]},"rate_per_second":5000,"reason":"r"}`, l.topic)
	}})
	for _, verb := range []string{"retry", "discard"} {
		ask := func(l *ledger, _ []uuid.UUID) (path, body string) {
			return apitest.GroupsPath + "/" + l.group() + "/" + verb, `{"rate_per_second":5000,"reason":"r"}`
		}
		all = append(all, massOperation{name: "group " + verb, action: verb, ask: ask})
	}
	for _, wait := range []string{"0s", "30s"} {
		ask := func(l *ledger, _ []uuid.UUID) (path, body string) {
			return "/api/v1/dlq/" + l.topic + "/retry-all?wait=" + wait, `{"rate_per_second":5000}`
		}
		all = append(all, massOperation{name: "retry-all, wait " + wait, action: "retry", ask: ask})
	}
	return all
}

func joined(ids []uuid.UUID) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return strings.Join(texts, `","`)
}

func (l *ledger) group() string {
	var list client.DeadLetterGroupList
	l.e.Send("GET", apitest.GroupsPath+"?topic="+l.topic, "", apitest.As("admin")...).Into(&list)
	if len(list.Groups) != 1 {
		l.e.T.Fatalf("%d groups", len(list.Groups))
	}
	return list.Groups[0].Fingerprint
}

// TestMassOperationsTouchWhatExistedWhenTheyWereRequested performs every kind of operation on many
// letters, in every way, while letters arrive. A ledger knows which letters were stored before the
// request was sent, and which were sent only after the response.
// uitest.TestAnOperationOnManyThingsIsForThoseOfItsRequest tests the same for all kinds of
// operations, including halts.
func TestMassOperationsTouchWhatExistedWhenTheyWereRequested(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t, apitest.Guarded, func(c *httpapi.Config) {
		people := c.Access.Identify
		c.Access.Identify = func(ctx context.Context, credential string) (principal.Principal, error) {
			if credential == "deputy" {
				return principal.Principal{Subject: "key:deputy", Role: principal.Admin, Tenant: apitest.Tenant}, nil
			}
			return people(ctx, credential)
		}
	})
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(target.Close)
	var pushed, took atomic.Int64
	began := time.Now()
	for n, op := range massOperations() {
		// No name is a prefix of another one.
		l := newLedger(e, fmt.Sprintf("topic-%02d", n), target.URL, op.action == "requeue")
		t.Run(op.action+" by "+op.name, func(t *testing.T) {
			t.Parallel()
			stop := make(chan struct{})
			var pushing sync.WaitGroup
			for range 2 {
				pushing.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							l.push()
							time.Sleep(time.Duration(l.pause.Load()))
						}
					}
				})
			}
			end := sync.OnceFunc(func() { close(stop); pushing.Wait() })
			defer end()
			patience.Until(t, "some letters are stored", func() bool { return l.count() >= 20 })
			took.Add(op.check(t, l))
			end()
			pushed.Add(int64(l.count()))
		})
	}
	t.Cleanup(func() {
		t.Logf("%d operations touched %d of %d letters, which arrived at %.0f a second", len(massOperations()), took.Load(),
			pushed.Load(), float64(pushed.Load())/time.Since(began).Seconds())
	})
}

// check performs the operation, compares the letters that it changed with the ledger, and returns
// their number.
func (op massOperation) check(t *testing.T, l *ledger) int64 {
	t.Helper()
	before := l.known()
	ids := make([]uuid.UUID, 0, len(before))
	for id := range before {
		ids = append(ids, id)
	}
	path, body := op.ask(l, ids)
	r := l.e.Send("POST", path, body, apitest.As("admin")...)
	var made client.Redrive
	if strings.Contains(path, "retry-all") {
		var out client.RetryAllResult
		r.Into(&out)
		made = *out.Redrive
	} else {
		r.Into(&made)
	}
	l.answer()
	if r.Status/100 != 2 || made.Expected == nil {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	after := l.count()
	patience.Until(t, "more letters are stored", func() bool { return l.count() >= after+20 })
	// Letters keep arriving until the operation has ended, but it only needs to leave out a few,
	// not thousands.
	l.pause.Store(int64(150 * time.Millisecond))
	at := apitest.RedrivesPath + "/" + made.ID.String()
	if op.approved {
		var approved client.Redrive
		a := l.e.Send("POST", at+"/approve", "", append(apitest.As("deputy"), "If-Match", "*")...)
		if a.Into(&approved); a.Status != http.StatusOK || approved.Expected == nil || *approved.Expected != *made.Expected {
			t.Fatalf("approve: %d %s", a.Status, a.Body)
		}
	}
	var done client.Redrive
	patience.Until(t, "the redrive has ended", func() bool {
		l.e.Send("GET", at+"?wait=5s", "", apitest.As("admin")...).Into(&done)
		return done.EndedAt != nil || done.State == client.RedriveStateHALTED
	})
	if done.State != client.RedriveStateCOMPLETED || done.Done != done.Matched {
		t.Errorf("it is %s, %d of %d done: %v", done.State, done.Done, done.Matched, done.HaltReason)
	}
	touched := l.touched(t, at)
	if int64(len(touched)) != *made.Expected || done.Matched != *made.Expected {
		t.Errorf("it expected %d letters, matched %d and has touched %d", *made.Expected, done.Matched, len(touched))
	}
	for id := range before {
		if !touched[id] {
			t.Errorf("letter %s was stored before the request, and is left out", id)
		}
	}
	for id, late := range l.known() {
		if late && touched[id] {
			t.Errorf("letter %s was sent after the answer, and is touched", id)
		}
	}
	l.untouched(t, touched, op)
	return int64(len(touched))
}

// touched returns the letters of a redrive.
func (l *ledger) touched(t *testing.T, at string) map[uuid.UUID]bool {
	t.Helper()
	out := map[uuid.UUID]bool{}
	for cursor := ""; ; {
		var page client.RedriveItemList
		l.e.Send("GET", at+"/items?page_size=200"+cursor, "", apitest.As("admin")...).Into(&page)
		for _, i := range page.Items {
			out[i.MessageID] = true
		}
		if page.Pagination.NextCursor == nil {
			return out
		}
		cursor = "&cursor=" + *page.Pagination.NextCursor
	}
}

// untouched checks one letter of each kind: the touched one must have changed since it arrived, and
// the other one must not.
func (l *ledger) untouched(t *testing.T, touched map[uuid.UUID]bool, op massOperation) {
	t.Helper()
	stored := l.known()
	arrived := client.DeadLetterStatusPENDING
	if op.action == "requeue" {
		arrived = client.DeadLetterStatusDEAD
	}
	var one, other int
	for id := range stored {
		if touched[id] && one > 5 || !touched[id] && other > 5 {
			continue
		}
		r := l.e.Send("GET", "/api/v1/dlq/messages/"+id.String(), "", apitest.As("admin")...)
		switch deleted := op.action == "delete" && touched[id]; {
		case deleted:
			if one++; r.Status != http.StatusNotFound {
				t.Errorf("the deleted letter %s: %d", id, r.Status)
			}
		case touched[id]:
			if one++; r.Letter(http.StatusOK).Status == arrived {
				t.Errorf("the touched letter %s is %s", id, arrived)
			}
		default:
			if other++; r.Letter(http.StatusOK).Status != arrived {
				t.Errorf("the letter %s, which came later, is no longer %s", id, arrived)
			}
		}
	}
	if one == 0 || other == 0 {
		t.Errorf("%d touched letters and %d others were looked at", one, other)
	}
}
