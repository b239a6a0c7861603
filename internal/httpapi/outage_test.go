package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/test/apitest"
	"github.com/skald-saga/skald/internal/test/patience"
)

// brokenSagas is a store that fails, or panics.
type brokenSagas struct {
	saga.Store
	panics bool
}

func (b brokenSagas) fail() error {
	if b.panics {
		panic("secret state of the store")
	}
	return apitest.ErrOutage
}

func (b brokenSagas) Get(context.Context, uuid.UUID, uuid.UUID) (saga.Saga, error) {
	return saga.Saga{}, b.fail()
}

func (b brokenSagas) List(context.Context, uuid.UUID, saga.Filter) (page.Of[saga.Saga], error) {
	return page.Of[saga.Saga]{}, b.fail()
}

func (b brokenSagas) Load(context.Context, []saga.Ref) ([]saga.Loaded, error) { return nil, b.fail() }

func TestOutageIsA503WithoutDetails(t *testing.T) {
	e := apitest.NewEdge(t, func(c *httpapi.Config) { c.Sagas.Store = brokenSagas{Store: c.Sagas.Store} })
	e.Register("order", "a")
	for _, path := range []string{apitest.SagasPath, apitest.MissingSaga, apitest.MissingSaga + "?wait=1s",
		apitest.MissingSaga + "/steps", apitest.MissingSaga + "/step-logs"} {
		r := e.Send("GET", path, "", "X-Request-Id", "outage-1")
		r.Wants(http.StatusServiceUnavailable, "SYS_UNAVAILABLE")
		if r.Header.Get("Retry-After") == "" || bytes.Contains(r.Body, []byte("secret")) {
			t.Errorf("%s: Retry-After %q, body %s", path, r.Header.Get("Retry-After"), r.Body)
		}
	}
	e.Send("POST", apitest.MissingSaga+"/cancel", "").Wants(http.StatusServiceUnavailable, "SYS_UNAVAILABLE")
	if log := e.Log.String(); !strings.Contains(log, "secret-host") || !strings.Contains(log, `"request_id":"outage-1"`) ||
		!strings.Contains(log, "GET /api/v1/sagas/{saga_id}") {
		t.Errorf("the log lacks the cause: %s", log)
	}
}

func TestPanicIsA500WithoutDetailsAndIsLogged(t *testing.T) {
	e := apitest.NewEdge(t, func(c *httpapi.Config) { c.Sagas.Store = brokenSagas{Store: c.Sagas.Store, panics: true} })
	r := e.Send("GET", apitest.MissingSaga, "")
	p := r.Wants(http.StatusInternalServerError, "SYS_INTERNAL")
	if leak := leaks.Find(r.Body); leak != nil || bytes.Contains(r.Body, []byte("secret")) {
		t.Errorf("the response leaks: %s", r.Body)
	}
	if log := e.Log.String(); !strings.Contains(log, "secret state") || !strings.Contains(log, p.RequestID) ||
		!strings.Contains(log, "outage_test.go") {
		t.Errorf("the log lacks the cause, the request id or the stack: %s", log)
	}
	if r := e.Send("GET", "/healthz", ""); r.Status != http.StatusOK {
		t.Errorf("after the panic: %d", r.Status)
	}
}

// commitFault makes Create fail before or after the saga is stored.
func commitFault(stored bool, err error) func(*httpapi.Config) {
	return func(c *httpapi.Config) {
		create := c.Sagas.Create
		c.Sagas.Create = func(ctx context.Context, n saga.NewSaga) (saga.CreateResult, error) {
			if stored {
				if _, err := create(ctx, n); err != nil {
					return saga.CreateResult{}, err
				}
			}
			return saga.CreateResult{}, err
		}
	}
}

func TestASagaWhoseCommitIsLostBeforeTheDiskIsA503(t *testing.T) {
	e := apitest.NewEdge(t, commitFault(false, apitest.ErrOutage))
	e.Register("order", "a")
	e.Send("POST", apitest.SagasPath, `{"workflow_name":"order"}`).Wants(http.StatusServiceUnavailable, "SYS_UNAVAILABLE")
	if n := len(e.List("").Sagas); n != 0 {
		t.Errorf("%d sagas, want none", n)
	}
}

func TestASagaWhoseCommitIsLostAfterTheDiskIsAnsweredAndRun(t *testing.T) {
	e := apitest.NewEdge(t, commitFault(true, apitest.ErrOutage))
	e.Register("order", "a")
	s := e.Start(`{"workflow_name":"order"}`)
	e.Node.Rest()
	if got := e.Saga(apitest.SagasPath + "/" + s.SagaID.String()); got.Status != client.SagaStatusCOMPLETED {
		t.Errorf("status %s: stored, but not run", got.Status)
	}
}

func TestSagaStoredByTheFirstAttemptOfABatchIsAccepted(t *testing.T) {
	e := apitest.NewEdge(t, func(c *httpapi.Config) {
		create := c.Sagas.Create
		c.Sagas.Create = func(ctx context.Context, n saga.NewSaga) (saga.CreateResult, error) {
			if _, err := create(ctx, n); err != nil { // its result is lost
				return saga.CreateResult{}, err
			}
			return create(ctx, n)
		}
	})
	e.Register("order", "a")
	s := e.Start(`{"workflow_name":"order"}`)
	e.Node.Rest()
	if got := e.Saga(apitest.SagasPath + "/" + s.SagaID.String()); got.Status != client.SagaStatusCOMPLETED {
		t.Errorf("status %s: stored, but not run", got.Status)
	}
}

func TestAnActionWhoseCommitIsLostAfterTheDiskIsAccepted(t *testing.T) {
	e := apitest.NewEdge(t, func(c *httpapi.Config) {
		commit := c.Sagas.Commit
		c.Sagas.Commit = func(ctx context.Context, ch saga.Change) error {
			return errors.Join(commit(ctx, ch), apitest.ErrOutage)
		}
	})
	at, g := apitest.Held(t, e, nil)
	defer close(g.Open)
	if r := e.Send("POST", at+"/cancel", ""); r.Status != http.StatusAccepted || r.Header.Get("ETag") != `"2"` {
		t.Errorf("got %d %s", r.Status, r.Body)
	}
}

// fasterDriver changes the saga before each of the first n commits of actions.
func fasterDriver(n int) func(*httpapi.Config) {
	return func(c *httpapi.Config) {
		commit, store := c.Sagas.Commit, c.Sagas.Store
		c.Sagas.Commit = func(ctx context.Context, ch saga.Change) error {
			if n--; n >= 0 {
				now, err := store.Get(ctx, apitest.Tenant.ID, ch.After.ID)
				if err != nil {
					return err
				}
				moved := saga.Change{Before: saga.Precondition{Version: now.Version, Epoch: now.LeaseEpoch}}
				moved.After.Saga = now
				moved.After.Version++
				if err := commit(ctx, moved); err != nil {
					return err
				}
			}
			return commit(ctx, ch)
		}
	}
}

func TestActionIsDecidedAgainAfterTheSagaChanged(t *testing.T) {
	e := apitest.NewEdge(t, fasterDriver(4))
	at, g := apitest.Held(t, e, nil)
	defer close(g.Open)
	if r := e.Send("POST", at+"/cancel", ""); r.Status != http.StatusAccepted || r.Header.Get("ETag") != `"6"` {
		t.Errorf("got %d, version %s: %s", r.Status, r.Header.Get("ETag"), r.Body)
	}
}

func TestActionGivesUpAfterLosingEveryRace(t *testing.T) {
	e := apitest.NewEdge(t, fasterDriver(1000))
	at, g := apitest.Held(t, e, nil)
	defer close(g.Open)
	e.Send("POST", at+"/cancel", "").Wants(http.StatusConflict, "REQ_KEEPS_CHANGING")
	present := e.Send("GET", at, "").Header.Get("ETag")
	e.Send("POST", at+"/cancel", "", "If-Match", present).Wants(http.StatusPreconditionFailed, "SAGA_VERSION_CONFLICT")
}

func TestFullNodeStoresTheSagaForOtherNodes(t *testing.T) {
	e := apitest.NewEdge(t, func(c *httpapi.Config) { c.Limits.MaxWait = time.Hour })
	e.Register("order", "a")
	e.Node.Full = true
	s := e.Start(`{"workflow_name":"order"}`)
	stored, err := e.Store.Sagas.Get(t.Context(), apitest.Tenant.ID, s.SagaID)
	if err != nil || stored.LeaseOwner != nil || stored.NextRunAt == nil {
		t.Errorf("stored = %+v, %v; want it unowned and due", stored, err)
	}
	// The saga ends on another node, so only the store shows it.
	e.Node.Silent = true
	g := apitest.NewGate(nil)
	e.Node.Script = g.Script
	e.Node.Wake(saga.Ref{Tenant: apitest.Tenant.ID, ID: s.SagaID})
	<-g.Reached
	time.AfterFunc(10*time.Millisecond, func() { close(g.Open) }) // while the request waits
	if got := e.Saga(apitest.SagasPath + "/" + s.SagaID.String() + "?wait=1h"); got.Status != client.SagaStatusCOMPLETED {
		t.Errorf("status %s, want the final state from the store", got.Status)
	}
}

func TestSagaIsStartedEvenIfItsClientLeaves(t *testing.T) {
	reached, goOn := make(chan struct{}), make(chan struct{})
	e := apitest.NewEdge(t, func(c *httpapi.Config) {
		create := c.Sagas.Create
		c.Sagas.Create = func(ctx context.Context, n saga.NewSaga) (saga.CreateResult, error) {
			close(reached)
			<-goOn
			if err := ctx.Err(); err != nil {
				return saga.CreateResult{}, err
			}
			return create(ctx, n)
		}
	})
	e.Register("order", "a")
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := e.CreateSagaWithBody(ctx, nil, "application/json", strings.NewReader(`{"workflow_name":"order","correlation_id":"left"}`))
		left <- err
	}()
	<-reached
	leave()
	if err := <-left; err == nil {
		t.Fatal("the client got a response")
	}
	close(goOn)
	patience.Until(t, "the saga is stored and run", func() bool {
		return len(e.List("correlation_id=left&status=COMPLETED").Sagas) > 0
	})
}

func TestARequestThatTakesTooLongIsA503(t *testing.T) {
	e := apitest.NewEdge(t, func(c *httpapi.Config) {
		c.Limits.RequestTimeout = time.Millisecond
		c.Sagas.Create = func(ctx context.Context, _ saga.NewSaga) (saga.CreateResult, error) {
			<-ctx.Done()
			return saga.CreateResult{}, ctx.Err()
		}
	})
	e.Register("order", "a")
	e.Send("POST", apitest.SagasPath, `{"workflow_name":"order"}`).Wants(http.StatusServiceUnavailable, "SYS_UNAVAILABLE")
}
