package chaos

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/skald-saga/skald/examples/order/ledger"
)

// ward stands in front of the participants of the outage campaign. Each participant has its own
// path, below which the shop serves its steps. The ward records every call that a participant
// received, including calls that it didn't process because it was unhealthy.
type ward struct {
	mu       sync.Mutex
	dice     *rand.Rand // guarded by mu
	ill      interval   // guarded by mu: when participants are unhealthy; to is zero until they have recovered
	arrivals []arrival  // guarded by mu: in order of arrival
}

// arrival is one call that a participant received.
type arrival struct {
	at          time.Time
	participant string
	saga, step  string
	action      ledger.Action
	attempt     int
	failed      bool // its caller gets no definite response in time
}

// attempt identifies an attempt of a saga: if the connection breaks, the same attempt may be sent
// again.
type attempt struct {
	saga, step string
	action     ledger.Action
	number     int
}

func (a *arrival) spent() attempt { return attempt{a.saga, a.step, a.action, a.attempt} }

// symptom is what happens to one call.
type symptom int

const (
	healthy symptom = iota
	hangsUp         // the call is read and its connection closed
	dawdles         // the call is served, but answered only after its caller has stopped waiting
	fails           // 500, and the call is not served
)

// These are the participants of the campaign. Only well is always healthy.
const (
	theDead  = "dead"
	theSlow  = "slow"
	theHalf  = "half"
	theFlaky = "flap"
	theWell  = "well"
)

// flapping is how long the flapping participant is alternately dead and healthy.
const flapping = 4 * time.Second

// patient is how long callers wait for a response.
const patient = time.Second

// symptomOf returns what a participant does to a call.
func (w *ward) symptomOf(participant string, at time.Time) symptom {
	if w.ill.from.IsZero() || at.Before(w.ill.from) || !w.ill.to.IsZero() {
		return healthy
	}
	switch participant {
	case theDead:
		return hangsUp
	case theSlow:
		return dawdles
	case theHalf:
		if w.dice.IntN(2) == 0 {
			return fails
		}
	case theFlaky:
		if at.Sub(w.ill.from)/flapping%2 == 0 {
			return hangsUp
		}
	}
	return healthy
}

// fallIll begins the outage and recover ends it. Both return the current time.
func (w *ward) fallIll() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ill.from = time.Now()
	return w.ill.from
}

func (w *ward) recover() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ill.to = time.Now()
	return w.ill.to
}

// received returns the arrivals so far.
func (w *ward) received() []arrival {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.arrivals)
}

func (w *ward) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		name, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		r.URL.Path = "/" + path
		if r.Header.Get("X-Saga-Id") == "" {
			return // the test's own call, which measures how busy the machine is
		}
		switch w.admit(name, r) {
		case hangsUp:
			_, _ = io.Copy(io.Discard, r.Body)
			panic(http.ErrAbortHandler)
		case fails:
			http.Error(rw, "no", http.StatusInternalServerError)
		case dawdles:
			kept := httptest.NewRecorder()
			next.ServeHTTP(kept, r)
			pause(r.Context(), 3*patient)
			rw.WriteHeader(kept.Code)
			_, _ = rw.Write(kept.Body.Bytes()) // the caller has stopped waiting
		default:
			next.ServeHTTP(rw, r)
		}
	})
}

// admit records a call and returns what will happen to it.
func (w *ward) admit(participant string, r *http.Request) symptom {
	n, _ := strconv.Atoi(r.Header.Get("X-Saga-Attempt"))
	w.mu.Lock()
	defer w.mu.Unlock()
	a := arrival{
		at: time.Now(), participant: participant, saga: r.Header.Get("X-Saga-Id"), step: r.Header.Get("X-Saga-Step"),
		action: ledger.Action(r.Header.Get("X-Saga-Action")), attempt: n,
	}
	s := w.symptomOf(participant, a.at)
	a.failed = s != healthy
	w.arrivals = append(w.arrivals, a)
	return s
}
