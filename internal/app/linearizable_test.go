package app_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// register is a resource with a version: its content in a GET.
type register struct {
	version string // its ETag
	value   string
}

// request is one request to a register: a read, or a write with If-Match.
type request struct {
	write bool
	match string // the ETag in If-Match of a write
	value string
}

// seen is the response to a request: the register at that time, a refusal (412), or no information
// on whether the request was executed.
type seen struct {
	register
	refused, unknown bool
}

// unread is the version that a write has created whose response is unknown.
const unread = "unread"

// registers is the model of linearizable GETs and conditional writes (invariant I12): a write
// succeeds if and only if it names the current version, and every write that changes something
// creates a new version.
var registers = porcupine.Model{
	Init: func() any { return register{} }, // unknown until the first read
	Step: func(state, input, output any) (bool, any) {
		at, in, out := state.(register), input.(request), output.(seen)
		switch {
		case !in.write:
			return at == (register{}) || at == out.register || at == register{unread, out.value}, out.register
		case out.unknown && at.version != in.match: // refused, or to be made later
			return true, at
		case out.unknown:
			return true, register{unread, in.value}
		case out.refused:
			return at.version != in.match, at
		}
		changes := out.version != at.version
		return at.version == in.match && out.value == in.value && (changes || at.value == in.value), out.register
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// A write whose response is unknown may or may not have been executed; nothing else follows from
// it.
func TestTheModelOfRegisters(t *testing.T) {
	t.Parallel()
	read := func(version, value string) [2]any {
		return [2]any{request{}, seen{register: register{version, value}}}
	}
	write := func(match, version, value string) [2]any {
		return [2]any{request{true, match, value}, seen{register: register{version, value}}}
	}
	refused := func(match, value string) [2]any { return [2]any{request{true, match, value}, seen{refused: true}} }
	unknown := func(match, value string) [2]any { return [2]any{request{true, match, value}, seen{unknown: true}} }
	for what, c := range map[string]struct {
		history [][2]any
		ok      bool
	}{
		"a write":                              {[][2]any{read("1", "a"), write("1", "2", "b"), read("2", "b"), refused("1", "c")}, true},
		"a lost update":                        {[][2]any{read("1", "a"), write("1", "2", "b"), write("1", "3", "c")}, false},
		"a write that was refused for nothing": {[][2]any{read("1", "a"), refused("1", "b")}, false},
		"a read of what is over":               {[][2]any{read("1", "a"), write("1", "2", "b"), read("1", "a")}, false},
		"an unknown write that was made":       {[][2]any{read("1", "a"), unknown("1", "b"), read("2", "b"), write("2", "3", "c")}, true},
		"an unknown write that was not made":   {[][2]any{read("1", "a"), unknown("1", "b"), read("1", "a"), write("1", "2", "c")}, true},
		"an unknown write of something else":   {[][2]any{read("1", "a"), unknown("1", "b"), read("2", "c")}, false},
		"an unknown write over another":        {[][2]any{read("1", "a"), write("1", "2", "b"), unknown("1", "c"), read("3", "c")}, false},
	} {
		var history []porcupine.Operation
		for i, h := range c.history {
			op := porcupine.Operation{Input: h[0], Output: h[1], Call: int64(2 * i), Return: int64(2*i + 1)}
			if h[1].(seen).unknown {
				op.ClientId, op.Return = -1, 1000
			}
			history = append(history, op)
		}
		if ok := porcupine.CheckOperations(registers, history); ok != c.ok {
			t.Errorf("%s: %v", what, ok)
		}
	}
}

func TestConcurrentReadsAndGuardedWritesAreLinearizable(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	nodes := []*node{start(t, dsn, "a"), start(t, dsn, "b")}
	url := func(client int) string { return nodes[client%len(nodes)].url + "/api/v1" }
	if status, doc := call(t, "POST", url(0)+"/workflows",
		strings.ReplaceAll(twoSteps, "URL", "http://127.0.0.1:9")); status != 201 {
		t.Fatalf("register: %d %v", status, doc)
	}
	quiet := suspended(t, url(0))
	for name, tt := range map[string]struct {
		do     func(client int, in request) seen
		values []string
	}{
		"a workflow": {func(client int, in request) seen {
			at := url(client) + "/workflows/pair"
			if in.write {
				at += map[string]string{"true": "/enable", "false": "/disable"}[in.value]
			}
			return guarded(t, at, in, "", "enabled")
		}, []string{"true", "false"}},
		"a saga": {func(client int, in request) seen {
			at := url(client) + "/sagas/" + quiet
			if in.write {
				at += "/extend-deadline"
			}
			return guarded(t, at, in, `{"timeout_ms":`+in.value+`}`, "timeout_at")
		}, []string{"3600000", "7200000", "10800000"}},
	} {
		t.Run(name, func(t *testing.T) { linearizable(t, race(8, 90, tt.do, tt.values...)) })
	}
}

// suspended starts a saga that changes only on request, and returns its id.
func suspended(t *testing.T, url string) string {
	t.Helper()
	_, doc := call(t, "POST", url+"/sagas", `{"workflow_name":"pair"}`)
	id := fmt.Sprint(doc["saga_id"])
	if status, doc := call(t, "POST", url+"/sagas/"+id+"/suspend", `{"reason":"to be quiet"}`); status/100 != 2 {
		t.Fatalf("suspend: %d %v", status, doc)
	}
	for version := -1.0; ; { // until the call in flight is recorded
		_, doc := call(t, "GET", url+"/sagas/"+id, "")
		if now := doc["version"].(float64); now == version {
			return id
		} else {
			version = now
		}
		time.Sleep(time.Second)
	}
}

func linearizable(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	result, info := porcupine.CheckOperationsVerbose(registers, history, patience.Limit)
	if result != porcupine.Ok {
		t.Errorf("the history is not linearizable: %s\n%v", result, info.PartialLinearizationsOperations())
	}
	refused, written := 0, 0
	for _, op := range history {
		if out := op.Output.(seen); out.refused {
			refused++
		} else if op.Input.(request).write {
			written++
		}
	}
	if refused == 0 || written == 0 {
		t.Errorf("%d writes refused, %d accepted: the test does not test it", refused, written)
	}
}

// race makes clients read a register and write a new value conditionally.
func race(clients, rounds int, do func(client int, in request) seen, values ...string) []porcupine.Operation {
	var mu sync.Mutex
	var history []porcupine.Operation
	begun := time.Now()
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(client)))
			var last seen
			for range rounds {
				in := request{}
				if last.version != "" && random.IntN(2) == 0 {
					in = request{write: true, match: last.version, value: values[random.IntN(len(values))]}
				}
				from := time.Since(begun)
				out := do(client, in)
				op := porcupine.Operation{
					ClientId: client,
					Input:    in,
					Output:   out,
					Call:     int64(from),
					Return:   int64(time.Since(begun)),
				}
				if last = out; out.refused {
					last = seen{}
				}
				mu.Lock()
				history = append(history, op)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return history
}

// guarded makes one request over HTTP; the value is the given member of the response. body is
// that of a write.
func guarded(t *testing.T, url string, in request, body, member string) seen {
	method := http.MethodGet
	if in.write {
		method = http.MethodPost
	} else {
		body = ""
	}
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return seen{refused: true}
	}
	if in.write {
		req.Header.Set("If-Match", in.match)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, doc, err := answerOf(req)
	switch {
	case err != nil:
		t.Error(err)
	case res.StatusCode == http.StatusPreconditionFailed:
	case res.StatusCode/100 == 2:
		value := fmt.Sprint(doc[member])
		if at, err := time.Parse(time.RFC3339, value); err == nil { // a deadline, in whole hours from now
			value = fmt.Sprint(time.Until(at).Round(time.Hour).Milliseconds())
		}
		return seen{register: register{res.Header.Get("ETag"), value}}
	default:
		t.Errorf("%s %s: %d %v", method, url, res.StatusCode, doc)
	}
	return seen{refused: true}
}
