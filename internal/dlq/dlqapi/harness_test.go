package dlqapi_test

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqapi"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/dlq/redrive"
	"github.com/skald-saga/skald/internal/dlq/redrivedb"
	"github.com/skald-saga/skald/internal/dlq/targets"
	"github.com/skald-saga/skald/internal/egress"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/apitest"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

const letters = "/api/v1/dlq/messages"

// queue is an API with a dead-letter queue on PostgreSQL, whose letters are driven to target over
// HTTP. There is no Kafka.
type queue struct {
	*apitest.Edge
	letters dlq.Letters
	loops   dlq.Queue
	target  *receiver
	driver  *redrive.Redriver // not running
	actions *auditdb.Actions
	policy  dlq.Policy // for all topics; changed before requests
}

// openQueue opens an empty database and a driver that may send to the loopback address;
// both are closed when the test ends.
func openQueue(t *testing.T) (*postgres.DB, *targets.HTTP) {
	t.Helper()
	db := pgtest.Connect(t, testdb.DSN(t))
	loopback, err := egress.NewPolicy(nil, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	web := targets.NewHTTP(targets.HTTPConfig{Policy: loopback, Version: "1.2.3", Now: time.Now,
		Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(web.Close)
	return db, web
}

// isDLQTopic reports whether topic is one of Skald's dead-letter topics, to which letters must not
// be driven.
func isDLQTopic(topic string) bool { return strings.HasSuffix(topic, ".dlq") }

func newQueue(t *testing.T, change ...func(*httpapi.Config)) *queue {
	t.Helper()
	db, web := openQueue(t)
	q := &queue{policy: dlq.DefaultPolicy, target: newReceiver(t)}
	q.policy.AutoRetry = false
	swift := q.policy
	swift.RetentionDays = 0 // ended letters are archived at once
	store := dlqdb.NewLetters(db, q.policy)
	loops := dlqdb.NewQueue(db, swift)
	q.actions = auditdb.NewActions(db)
	q.letters, q.loops = store, loops
	redrives := redrivedb.NewRedrives(db, loops)
	driver := redrive.New(redrive.Config{
		Queue: ruled{loops, q}, Redrives: redrives, Forbidden: isDLQTopic, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Drivers: map[dlq.TargetKind]redrive.Driver{dlq.ToHTTP: web, dlq.ToSaga: accepts{}, dlq.ToWebhook: disabled{}},
	})
	q.driver = driver
	q.Edge = apitest.NewEdge(t, append([]func(*httpapi.Config){func(c *httpapi.Config) {
		c.Now = time.Now
		c.DeadLetters = &dlqapi.DeadLetters{
			Letters: q.letters, Drive: driver.Now, MayDrive: driver.MayDrive, Routes: driver.Routes(),
			PolicyOf: ruled{loops, q}.PolicyOf, UndoneByHand: q.undoneByHand,
			Redrives: redrives, Overview: store, Actions: q.actions, VerifyActions: apitest.Verified(q.actions),
			WakeRedrives:  func() {},
			RedriveLimits: dlq.RedriveLimits{DefaultRate: 50, MaxRate: 1000, Bulk: 100},
		}
	}}, change...)...)
	return q
}

// ruled uses the test's policy for all topics.
type ruled struct {
	dlq.Queue
	q *queue
}

func (r ruled) PolicyOf(_ context.Context, tenant uuid.UUID, topic string) (dlq.Policy, error) {
	p := r.q.policy
	p.TenantID, p.Topic = tenant, topic
	return p, nil
}

// accepts is a driver whose target reports its result later, as a saga does.
type accepts struct{}

func (accepts) Drive(_ context.Context, batch []dlq.Drive) []dlq.Result {
	out := make([]dlq.Result, len(batch))
	for i := range out {
		out[i] = dlq.Result{Accepted: true, StartedAt: time.Now(), EndedAt: time.Now()}
	}
	return out
}

// disabled is the driver of a disabled webhook.
type disabled struct{}

func (disabled) Drive(_ context.Context, batch []dlq.Drive) []dlq.Result {
	out := make([]dlq.Result, len(batch))
	for i := range out {
		why := fault.New(fault.Conflict, webhook.CodeDisabled, "the webhook is disabled (by request): enable it first")
		out[i] = dlq.Result{Outcome: dlq.Withdrawn, Error: why.Detail, Fault: why, StartedAt: time.Now(), EndedAt: time.Now()}
	}
	return out
}

// undoneByHand does to the letter what its saga would do.
func (q *queue) undoneByHand(ctx context.Context, l dlq.Letter, by operator.By) (dlq.Letter, error) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	c, err := dlq.Apply(l, dlq.ResolveRequested{}, dlq.Moment{Now: now})
	if err != nil {
		return l, err
	}
	return c.After, q.letters.Change(ctx, c.After, by.Did(uuid.Must(uuid.NewV7()), l.TenantID, now, operator.DeadLetter,
		l.ID.String(), "saga-resolve", nil))
}

// receiver is the target to which letters are driven.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	got    []received
}

type received struct {
	header http.Header
	body   string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{status: http.StatusOK}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, received{req.Header, string(body)})
		w.WriteHeader(r.status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *receiver) last(t *testing.T) received {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.got) == 0 {
		t.Fatal("the target got nothing")
	}
	return r.got[len(r.got)-1]
}

// push stores a letter, which must be new.
func (q *queue) push(body string, header ...string) client.DeadLetter {
	q.T.Helper()
	r := q.Send("POST", letters, body, header...)
	var l client.DeadLetter
	if r.Into(&l); r.Status != http.StatusCreated || r.Header.Get("Location") != letters+"/"+l.ID.String() ||
		!strings.HasPrefix(r.Header.Get("ETag"), `"1`) {
		q.T.Fatalf("push %s: %d %v %s", body, r.Status, r.Header, r.Body)
	}
	return l
}

// toTarget returns the body of a letter for the target.
func (q *queue) toTarget(more string) string {
	if more != "" {
		more = "," + more
	}
	return `{"original_topic":"orders","error_message":"boom","target":{"kind":"http","url":"` + q.target.URL + `"}` + more + `}`
}

// at returns the path of a letter.
func at(l client.DeadLetter) string { return letters + "/" + l.ID.String() }

// store stores a letter from a source other than REST.
func (q *queue) store(l dlq.Letter) client.DeadLetter {
	q.T.Helper()
	l.TenantID, l.OriginalTopic, l.Failure.Message, l.MaxRetries = apitest.Tenant.ID,
		cmp.Or(l.OriginalTopic, "saga.order.pay.compensate"), "gave up", 3
	l = dlq.New(l, uuid.Must(uuid.NewV7()), &q.policy, dlq.Moment{Now: time.Now().UTC().Truncate(time.Microsecond)})
	pushed, err := q.letters.Push(q.T.Context(), []dlq.Letter{l})
	if err != nil || pushed[0].Err != nil {
		q.T.Fatal(err, pushed)
	}
	return client.DeadLetter{ID: l.ID}
}

// topicPath returns the path of the list of a topic.
func topicPath(topic string) string { return "/api/v1/dlq/" + url.PathEscape(topic) }
