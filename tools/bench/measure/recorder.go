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
type calls [6 + mostSteps - 3]int

// callPaths are the last parts of the paths that steps and compensations call: those of an order of
// three steps, and those of the steps that longer ones have before the last.
var callPaths = append([]string{"reserve", "charge", "create", "refuse", "release", "refund"}, furtherSteps...)

// furtherSteps are called between the first two steps and the last one.
var furtherSteps = func() (names []string) {
	for i := 3; i < mostSteps; i++ {
		names = append(names, fmt.Sprint("step-", i))
	}
	return names
}()

const (
	mostSteps   = 20
	createCalls = 2 // the positions of the last step, as it was answered
	refuseCalls = 3
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
	thirds int // orders whose last step ends in refuseThird
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
	call, err := h.record(r.URL.Path, body.Bytes())
	if err != nil {
		// No peer repeats or ignores this silently: the order then has too few calls.
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	reply(w, "/"+callPaths[call])
}

// record returns the position of the call in callPaths. Of the orders whose last step ends in
// refuseThird it refuses every third, also when the call is made again.
func (h *recorder) record(path string, body []byte) (call int, err error) {
	name := path[strings.LastIndexByte(path, '/')+1:]
	third := "/"+name == refuseThird
	call = slices.Index(callPaths, name)
	_, rest, found := bytes.Cut(body, orderIDKey)
	id, _, closed := bytes.Cut(rest, []byte(`"`))
	if call < 0 && !third || !found || !closed {
		return 0, errors.New("a call must have a known path and an order_id")
	}
	h.lock.Lock()
	defer h.lock.Unlock()
	made := h.orders[string(id)]
	if third {
		call = createCalls
		if made[createCalls]+made[refuseCalls] == 0 {
			h.thirds++
		}
		if made[refuseCalls] > 0 || made[createCalls] == 0 && h.thirds%3 == 0 {
			call = refuseCalls
		}
	}
	made[call]++
	h.made++
	h.orders[string(id)] = made
	return call, nil
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
