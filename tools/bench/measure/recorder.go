package measure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// calls counts the calls of one order, by their position in callPaths.
type calls [6]int

// callPaths are the last parts of the paths that steps and compensations call.
var callPaths = []string{"reserve", "charge", "create", "refuse", "release", "refund"}

// The calls that an order makes which succeeds, and one whose last step is refused.
var (
	placedCalls = calls{1, 1, 1, 0, 0, 0}
	undoneCalls = calls{1, 1, 0, 1, 1, 1}
)

// The header values are shared by all answers; net/http only reads them.
var (
	jsonType    = []string{"application/json"}
	doneBody    = []byte(`{"ok":true}`)
	refusedBody = []byte(`{"error":"refused by the benchmark"}`)
)

// refuseThird is the end of the path of which every third call is refused.
const refuseThird = "/refuse-third"

var thirds atomic.Int64 // calls of refuseThird

// reply answers a call.
func reply(w http.ResponseWriter, path string) {
	w.Header()["Content-Type"] = jsonType
	body := doneBody
	if strings.HasSuffix(path, "/refuse") || strings.HasSuffix(path, refuseThird) && thirds.Add(1)%3 == 0 {
		w.WriteHeader(http.StatusConflict)
		body = refusedBody
	}
	// A caller that has disconnected records the failed call itself.
	_, _ = w.Write(body)
}

// recorder answers calls like Participant, and remembers which were made for which order: it
// finds the order's id in the body, which every peer passes on. So the check of a measurement
// does not depend on what the measured server says.
type recorder struct {
	lock   sync.Mutex
	orders map[string]calls
	made   int // calls since the beginning
}

const (
	// recordedPath returns what was recorded since it was last called, madePath how many calls
	// were ever made: it is asked often while a server is measured.
	recordedPath = "/recorded"
	madePath     = "/made"
)

var (
	orderIDKey = []byte(`"order_id":"`)
	bodies     = sync.Pool{New: func() any { return new(bytes.Buffer) }}
)

func (h *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == recordedPath {
		h.take(w)
		return
	}
	if r.URL.Path == madePath {
		h.lock.Lock()
		defer h.lock.Unlock()
		_, _ = fmt.Fprint(w, h.made)
		return
	}
	body := bodies.Get().(*bytes.Buffer) //nolint:forcetypeassert // the pool has nothing else
	body.Reset()
	defer bodies.Put(body)
	if _, err := body.ReadFrom(r.Body); err != nil {
		http.Error(w, "unreadable body", http.StatusBadRequest)
		return
	}
	if err := h.record(r.URL.Path, body.Bytes()); err != nil {
		// No peer repeats or ignores this silently: the order then has too few calls.
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	reply(w, r.URL.Path)
}

func (h *recorder) record(path string, body []byte) error {
	call := slices.Index(callPaths, path[strings.LastIndexByte(path, '/')+1:])
	_, rest, found := bytes.Cut(body, orderIDKey)
	id, _, closed := bytes.Cut(rest, []byte(`"`))
	if call < 0 || !found || !closed {
		return errors.New("a call needs a known path and an order_id")
	}
	h.lock.Lock()
	defer h.lock.Unlock()
	made := h.orders[string(id)]
	made[call]++
	h.made++
	h.orders[string(id)] = made
	return nil
}

func (h *recorder) take(w http.ResponseWriter) {
	h.lock.Lock()
	orders := h.orders
	h.orders = map[string]calls{}
	h.lock.Unlock()
	w.Header()["Content-Type"] = jsonType
	// A reader that has disconnected reports it itself.
	_ = json.NewEncoder(w).Encode(orders)
}

// checkCalls returns an error unless each order has made the calls that it must and no others,
// and how many calls were repeated.
func checkCalls(recorded map[string]calls, orders []string, want calls) (repeated int, err error) {
	wrong, example := 0, ""
	for _, id := range orders {
		made, fits := recorded[id], true
		for i, n := range made {
			fits = fits && (n > 0) == (want[i] > 0)
			repeated += max(0, n-want[i])
		}
		if !fits {
			wrong++
			example = fmt.Sprintf("order %s made the calls %v, want %v of %s", id, made, want, strings.Join(callPaths, ", "))
		}
	}
	if wrong > 0 {
		return repeated, fmt.Errorf("WRONG: %d of %d orders did not make their calls: %s", wrong, len(orders), example)
	}
	return repeated, nil
}
