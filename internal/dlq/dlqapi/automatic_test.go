package dlqapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/targets"
	"github.com/skald-saga/skald/internal/test/apitest"
	"github.com/skald-saga/skald/internal/test/patience"
)

// arrival is a letter that a target has received.
type arrival struct {
	Key string `json:"key"`
	N   int    `json:"n"`
	// automatic means that it was not sent by a redrive.
	automatic, refused bool
}

// arrivals is a target that records what it receives, in order.
type arrivals struct {
	*httptest.Server
	mu      sync.Mutex
	got     []arrival
	refuses func(a arrival, before int) bool // before: how often it has arrived already
}

func newArrivals(t *testing.T, refuses func(arrival, int) bool) *arrivals {
	t.Helper()
	s := &arrivals{refuses: refuses}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *arrivals) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var a arrival
	raw, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(raw, &a)
	a.automatic = r.Header.Get(targets.HeaderRedriveID) == ""
	s.mu.Lock()
	defer s.mu.Unlock()
	before := 0
	for _, o := range s.got {
		if o.Key == a.Key && o.N == a.N {
			before++
		}
	}
	if a.refused = s.refuses(a, before); a.refused {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	s.got = append(s.got, a)
}

func (s *arrivals) all() []arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]arrival(nil), s.got...)
}

// pushed stores n letters of a topic, using the given number of keys in turn.
func pushed(e *apitest.Edge, topic, url string, n, keys int) {
	e.T.Helper()
	letters := make([]string, n)
	for i := range n {
		key := fmt.Sprintf("%s-%d", topic, i%keys)
		letters[i] = fmt.Sprintf(`{"original_topic":%q,"key":%q,"error_message":"refused","error_type":"IOError",`+
			`"payload":{"key":%q,"n":%d},"target":{"kind":"http","url":%q}}`, topic, key, key, i, url)
	}
	for from := 0; from < n; from += 300 {
		var out client.DeadLetterResults
		e.Send("POST", "/api/v1/dlq/messages/batch",
			`{"messages":[`+strings.Join(letters[from:min(n, from+300)], ",")+`]}`).Into(&out)
		for _, r := range out.Results {
			if r.ID == nil {
				e.T.Fatalf("push: %+v", r.Problem)
			}
		}
	}
}

// soon is a policy with which letters are retried while a redrive is working on them.
func soon() dlq.Policy {
	p := dlq.DefaultPolicy
	p.Backoff.InitialIntervalMS, p.Backoff.MaxIntervalMS, p.Backoff.Multiplier = 3000, 3000, 1
	p.Backoff.Jitter = new(0.0)
	return p
}

// 600 letters with 20 keys arrive under a policy that retries them soon, and they are redriven
// immediately in the order of their keys. Automatic retries of other letters continue in the
// meantime.
func TestARedrivePerKeyIsInOrderBesideAutomaticRetries(t *testing.T) {
	t.Parallel()
	e := newQueueEdgeOf(t, soon())
	// Every third of the others is rejected once, so that automatic retries never pause.
	target := newArrivals(t, func(a arrival, before int) bool {
		return strings.HasPrefix(a.Key, "others") && a.N%3 == 0 && before == 0
	})
	pushed(e, "orders", target.URL, 600, 20)
	made := e.Bulk(`{"action":"retry","reason":"r","filter":{"topic":"orders"},"order":"per_key","rate_per_second":100}`)
	pushed(e, "others", target.URL, 150, 150)
	done := e.Until(made.ID, "completed", inState("COMPLETED"))
	patience.Until(t, "the others are retried automatically", func() bool {
		n := 0
		for _, a := range target.all() {
			if a.automatic && !a.refused && strings.HasPrefix(a.Key, "others") {
				n++
			}
		}
		return n == 150
	})
	last, times, out, passed := map[string]int{}, map[string]int{}, 0, 0
	for _, a := range target.all() {
		if !strings.HasPrefix(a.Key, "orders") {
			continue
		}
		before, known := last[a.Key]
		switch times[fmt.Sprint(a.Key, "/", a.N)]++; {
		case a.automatic && known:
			passed++ // while the redrive runs
		case a.automatic: // before it was requested
		case known && before > a.N:
			out++
			fallthrough
		default:
			last[a.Key] = a.N
		}
	}
	if out != 0 || passed != 0 || len(times) != 600 {
		t.Errorf("of %d letters %d are out of order, and %d were sent beside the redrive, which did %d of %d",
			len(times), out, passed, done.Done, done.Matched)
	}
	for letter, n := range times {
		if n != 1 {
			t.Errorf("%s came %d times", letter, n)
		}
	}
}

// A redrive that halts at its stop condition has sent as many letters as the condition allows.
// Automatic retries continue with other letters but send none of the rest. A letter held by the
// redrive names it.
func TestAutomaticRetriesDoNotPassTheStopConditionOfARedrive(t *testing.T) {
	t.Parallel()
	e := newQueueEdgeOf(t, soon())
	down := newArrivals(t, func(arrival, int) bool { return true })
	up := newArrivals(t, func(a arrival, before int) bool { return before == 0 })
	pushed(e, "orders", down.URL, 100, 100)
	made := e.Bulk(`{"action":"retry","reason":"r","filter":{"topic":"orders"},"concurrency":1,"rate_per_second":300,` +
		`"stop_on":{"failures":5}}`)
	halted := e.Until(made.ID, "halted", inState("HALTED"))
	sent := len(down.all())
	pushed(e, "others", up.URL, 50, 50)
	patience.Until(t, "other letters are retried twice", func() bool { return len(up.all()) >= 100 })
	byRedrive := 0
	for _, a := range down.all() {
		if !a.automatic {
			byRedrive++
		}
	}
	if now := len(down.all()); now != sent || int64(byRedrive) != halted.Failed || byRedrive > 6 {
		t.Errorf("it halted after %d failures; the target has had %d requests, %d of them by the redrive, and %d since",
			halted.Failed, sent, byRedrive, now-sent)
	}
}
