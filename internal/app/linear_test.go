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

	"github.com/skald-saga/skald/internal/testdb"
)

// register is a resource with a version: what GET shows of it.
type register struct {
	version string // its ETag
	value   string
}

// access is one request to a register: a read, or a write with If-Match.
type access struct {
	write bool
	match string // the ETag that the write insists on
	value string
}

// seen is an access's answer: the register as it then was, or a refusal (412).
type seen struct {
	register
	refused bool
}

// registers is what linearizable GETs and guarded writes do (invariant I12): a
// write happens exactly if it names the present version, and every write that
// changes something makes a new one.
var registers = porcupine.Model{
	Init: func() any { return register{} }, // unknown: the first read tells
	Step: func(state, input, output any) (bool, any) {
		at, in, out := state.(register), input.(access), output.(seen)
		switch {
		case !in.write:
			return at == (register{}) || at == out.register, out.register
		case out.refused:
			return at.version != in.match, at
		}
		changes := out.version != at.version
		return at.version == in.match && out.value == in.value && (changes || at.value == in.value), out.register
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

func TestConcurrentReadsAndGuardedWritesAreLinearizable(t *testing.T) {
	dsn := testdb.DSN(t)
	nodes := []*node{start(t, dsn, "a"), start(t, dsn, "b")}
	if status, doc := call(t, "POST", nodes[0].url+"/api/v1/workflows", strings.ReplaceAll(twoSteps, "URL", "http://127.0.0.1:9")); status != 201 {
		t.Fatalf("register: %d %v", status, doc)
	}
	values := map[string]string{"true": "/enable", "false": "/disable"}
	do := func(client int, in access) seen {
		url, method := nodes[client%len(nodes)].url+"/api/v1/workflows/pair", "GET"
		if in.write {
			url, method = url+values[in.value], "POST"
		}
		return guarded(t, method, url, in, "enabled")
	}
	history := race(16, 60, do, "true", "false")
	result, info := porcupine.CheckOperationsVerbose(registers, history, time.Minute)
	if result != porcupine.Ok {
		t.Errorf("the history is not linearizable: %s\n%v", result, info.PartialLinearizationsOperations())
	}
	refused, written := 0, 0
	for _, op := range history {
		if out := op.Output.(seen); out.refused {
			refused++
		} else if op.Input.(access).write {
			written++
		}
	}
	if refused == 0 || written == 0 {
		t.Errorf("%d writes refused, %d accepted: the test does not test it", refused, written)
	}
}

// race has clients read a register and write what they have read anew.
func race(clients, rounds int, do func(client int, in access) seen, values ...string) []porcupine.Operation {
	var mu sync.Mutex
	var history []porcupine.Operation
	begun := time.Now()
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(client)))
			var last seen
			for range rounds {
				in := access{}
				if last.version != "" && random.IntN(2) == 0 {
					in = access{write: true, match: last.version, value: values[random.IntN(len(values))]}
				}
				from := time.Since(begun)
				out := do(client, in)
				op := porcupine.Operation{ClientId: client, Input: in, Output: out, Call: int64(from), Return: int64(time.Since(begun))}
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

// guarded makes one access over HTTP; member of the answer is the value.
func guarded(t *testing.T, method, url string, in access, member string) seen {
	req, err := http.NewRequest(method, url, http.NoBody)
	if err != nil {
		t.Error(err)
		return seen{refused: true}
	}
	if in.write {
		req.Header.Set("If-Match", in.match)
	}
	res, doc, err := answerOf(req)
	switch {
	case err != nil:
		t.Error(err)
	case res.StatusCode == http.StatusPreconditionFailed:
	case res.StatusCode/100 == 2:
		return seen{register: register{res.Header.Get("ETag"), fmt.Sprint(doc[member])}}
	default:
		t.Errorf("%s %s: %d %v", method, url, res.StatusCode, doc)
	}
	return seen{refused: true}
}
