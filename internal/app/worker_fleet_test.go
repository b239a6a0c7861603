package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/worker"
)

// oddReports is the number of reports that the fleet sends.
const oddReports = 10_000

// fleetSeed returns the seed of the fleet: TEST_SEED, or a fixed one.
func fleetSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("TEST_SEED")
	if text == "" {
		return 1
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

// strange generates odd texts, numbers and documents.
type strange struct{ *rand.Rand }

// text is any text, usually with something that cannot be stored.
func (g strange) text() string {
	parts := []string{"\x00", "\xff", "\xed\xa0\x80", "\xed\xb0\x80", "\xc3", "\u202e", "\u2028", "\uFFFD", "💥", "é",
		"a", "\n", "\"", `\`, "\x1b[2J", "\u0301", "{", "]", ""}
	var b strings.Builder
	for range g.IntN(6) {
		b.WriteString(parts[g.IntN(len(parts))])
	}
	if g.IntN(20) == 0 {
		b.WriteString(strings.Repeat(parts[g.IntN(len(parts))], 1<<g.IntN(15)))
	}
	return b.String()
}

func (g strange) number() float64 {
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 100.0000001, math.MaxFloat64, -math.MaxFloat64,
		math.SmallestNonzeroFloat64, math.Copysign(0, -1), 1e21, 50, 0, 100}
	return odd[g.IntN(len(odd))]
}

// document returns JSON text, which may be invalid, and whether a server can store it.
func (g strange) document() (text string, good bool) {
	odd := []string{`"\u0000"`, `"\ud800"`, `"\udc00\ud800"`, "\"\xff\"", `{"a":1,"a":2}`, `1e400`, `-1e400`, `NaN`,
		`Infinity`,
		`undefined`, `{"a" "b"}`, `{'a':1}`, `[1,]`, `[1}`, `{"a":[}`, `01`, `+1`, `.5`, ``, `"` + "\n" + `"`, `tru`,
		strings.Repeat("[", 200) + strings.Repeat("]", 200), `{"a\u0000":1}`, `1 2`}
	fine := []string{`null`, `1`, `"x"`, `{"a":[1,2,{"b":"é"}]}`, `1e300`, `[]`, `{}`, `"\ud83d\ude00"`, `-0.0`,
		`true`}
	if g.IntN(3) == 0 {
		return fine[g.IntN(len(fine))], true
	}
	return odd[g.IntN(len(odd))], false
}

// TestAFleetOfOddReportsLosesNothing has workers of the library and raw HTTP calls report every odd
// text, number and size. No lease is lost, no run is repeated, and each odd item gets its own
// answer.
func TestAFleetOfOddReportsLosesNothing(t *testing.T) {
	t.Parallel()
	seed := fleetSeed(t)
	t.Logf("TEST_SEED=%d", seed)
	y := workerNodeOf(t, "null", func(c *worker.Config) { c.Concurrency = 50 })
	const runs, each = 50, oddReports / 2 / 50
	var reports atomic.Int64
	y.w.Handle("print", func(ctx context.Context, r *worker.Run) (any, error) {
		n, err := strconv.ParseUint(string(r.Args), 10, 64)
		if err != nil {
			return nil, err
		}
		g := strange{rand.New(rand.NewPCG(seed, n))}
		for range each {
			reports.Add(1)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			switch g.IntN(4) {
			case 0:
				fmt.Fprint(r.Stdout(), g.text())
			case 1:
				doc, good := g.document()
				if err := r.Checkpoint(jsonText(doc)); (err == nil) != good {
					t.Errorf("the checkpoint %.60q: %v", doc, err)
				}
			default:
				r.Progress(g.number(), g.text())
			}
		}
		switch n % 3 {
		case 0:
			return "done", nil
		case 1:
			return nil, errors.New("odd " + g.text())
		}
		return nil, &worker.Failure{Code: "ODD" + g.text(), Message: g.text(), Permanent: true}
	})
	stop := y.work()
	var ids []string
	for i := range runs {
		ids = append(ids, y.run(strconv.Itoa(i)))
	}
	for i, id := range ids {
		state := "FAILED"
		if i%3 == 0 {
			state = "SUCCEEDED"
		}
		doc := y.becomes(id, state)
		e, _ := doc["error"].(map[string]any)
		code, _ := e["code"].(string)
		if doc["attempt"] != float64(1) || doc["losses_used"] != float64(0) || i%3 == 1 && code != "ERROR" ||
			i%3 == 2 && !strings.HasPrefix(code, "ODD") {
			t.Errorf("run %d: %v", i, doc)
		}
	}
	stop()
	if n := reports.Load(); n != runs*each {
		t.Errorf("%d reports of the library", n)
	}
	y.rawReports(strange{rand.New(rand.NewPCG(seed, 1<<32))}, oddReports/2)
}

// rawReports sends so many reports of a worker in other languages: in heartbeats with 25 runs
// each, of which about half say something odd.
func (y *workerNode) rawReports(g strange, reports int) {
	y.t.Helper()
	const held = 25
	w := y.must("POST", "/api/v1/workers", `{"name":"raw","max_runs":100}`, 201)["worker_id"].(string)
	for i := range held {
		y.run(strconv.Itoa(i))
	}
	ask := fmt.Sprintf(`{"slots":%d,"start":true}`, held)
	claimed := y.must("POST", "/api/v1/workers/"+w+"/claim", ask, 200)["runs"].([]any)
	if len(claimed) != held {
		y.t.Fatalf("claimed %d", len(claimed))
	}
	fences := make([]string, held)
	for i, c := range claimed {
		r := c.(map[string]any)
		fences[i] = fmt.Sprintf(`{"run_id":%q,"attempt":%v,"lease_token":%q,"leader_epoch":%v`,
			r["run_id"], r["attempt"], r["lease_token"], r["leader_epoch"])
	}
	for seq := 1; seq <= reports/held; seq++ {
		items, good := make([]string, held), make([]bool, held)
		for i := range items {
			var doc string
			doc, good[i] = g.document()
			items[i] = fences[i] + `,"checkpoint":` + doc + `}`
		}
		body := fmt.Sprintf(`{"seq":%d,"running":[%s]}`, seq, strings.Join(items, ","))
		leases := y.must("POST", "/api/v1/workers/"+w+"/heartbeat", body, 200)["leases"].([]any)
		for i, l := range leases {
			lease := l.(map[string]any)
			if lease["ok"] != true || (lease["problem"] == nil) != good[i] {
				y.t.Errorf("%.300s: %v", items[i][len(fences[i]):], lease)
			}
		}
		if len(leases) != held || y.t.Failed() {
			y.t.Fatalf("heartbeat %d: %d leases", seq, len(leases))
		}
	}
	var items []string
	for i, f := range fences {
		text, err := json.Marshal(g.text())
		if err != nil {
			y.t.Fatal(err)
		}
		items = append(items, f+`,"error":{"code":"ODD","message":`+string(text)+`}}`,
			fmt.Sprintf(`{"run_id":%q,"result":NaN,"n":%d}`, uuid.New(), i))
	}
	body := `{"runs":[` + strings.Join(items, ",") + `]}`
	for i, r := range y.must("POST", "/api/v1/workers/"+w+"/complete", body, 200)["results"].([]any) {
		want := []float64{200, 400}[i%2]
		if got := r.(map[string]any); got["status"] != want {
			y.t.Errorf("%.200s: %v", items[i], got)
		}
	}
}
