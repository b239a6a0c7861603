package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// wish is a client's request for a run, an event or a saga under a key, together with the responses
// to it.
type wish struct {
	job, key string
	kind     wishKind // for an event, job is its type; for a saga, its workflow
	ids      []string // ids of the run or event, one for each successful response
	refused  bool     // the request was refused permanently
	unknown  bool     // a response was lost
}

// wishKind is the kind of resource that a client requests.
type wishKind int

const (
	ofRun wishKind = iota
	ofEvent
	ofSaga
)

// id returns the name of the response member that holds the new resource's id.
func (k wishKind) id() string { return []string{"id", "event_id", "saga_id"}[k] }

// asker represents the users of job runs: they create runs manually, repeat requests, cancel runs
// and take runs away from workers.
type asker struct {
	w    *world
	jobs []*job

	mu     sync.Mutex
	wishes []*wish  // guarded by mu
	known  []string // guarded by mu: ids of runs, for operators
	dealt  map[string]int
}

func (a *asker) did(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dealt[what]++
}

// settle repeats a request until it gets an answer.
func (a *asker) settle(
	ctx context.Context,
	dice *rand.Rand,
	method, path, key string,
	body []byte,
) (r reply, lost bool) {
	for ctx.Err() == nil {
		r = a.w.request(ctx, a.w.nodes[dice.IntN(len(a.w.nodes))], method, path, key, body)
		switch {
		case r.err != nil && r.notSent:
		case r.err != nil || r.status >= 500:
			lost = true
		default:
			return r, lost
		}
		pause(ctx, 50*time.Millisecond)
	}
	return r, true
}

// define stores the settings and, once every node uses them, the definitions, each through a
// different node.
func (a *asker) define(ctx context.Context) error {
	dice := a.w.dice("definitions")
	r, _ := a.settle(ctx, dice, http.MethodPatch, "/api/v1/settings", "", encode(map[string]any{"values": jobSettings}))
	if r.status != http.StatusOK {
		return fmt.Errorf("change the settings: %d %s", r.status, r.body)
	}
	pause(ctx, 2100*time.Millisecond) // nodes cache settings for two seconds
	for i, j := range a.jobs {
		r := a.w.request(ctx, a.w.nodes[i%len(a.w.nodes)], http.MethodPost, "/api/v1/job-definitions", "", j.document())
		if r.err != nil || r.status != http.StatusCreated {
			return fmt.Errorf("define %s: %d %s %w", j.name, r.status, r.body, r.err)
		}
	}
	return a.registerFlow(ctx)
}

// ask sends requests until more ends. It finishes the requests that it has begun, unless run ends
// first.
func (a *asker) ask(run, more context.Context, clients int, think time.Duration) {
	var all sync.WaitGroup
	for i := range clients {
		dice := a.w.dice(fmt.Sprintf("asker %d", i))
		all.Go(func() {
			for more.Err() == nil {
				a.once(run, dice)
				pause(more, time.Duration(dice.Int64N(int64(think))))
			}
		})
	}
	all.Wait()
}

func (a *asker) once(ctx context.Context, dice *rand.Rand) {
	switch n := dice.IntN(100); {
	case n < 60:
		a.run(ctx, dice)
	case n < 66:
		a.publish(ctx, dice)
	case n < 72:
		a.order(ctx, dice)
	case n < 84:
		a.deal(ctx, dice, "cancel", 0.2)
	case n < 92:
		a.deal(ctx, dice, "reassign", 0.3)
	default:
		a.again(ctx, dice)
	}
}

// wished sends a request with a new key and sometimes repeats it.
func (a *asker) wished(ctx context.Context, dice *rand.Rand, w *wish, path string, body []byte) {
	w.key = "wish-" + uuidFrom(dice)
	a.mu.Lock()
	a.wishes = append(a.wishes, w)
	a.mu.Unlock()
	for range 1 + dice.IntN(4)/3 {
		r, lost := a.settle(ctx, dice, http.MethodPost, path, w.key, body)
		a.heard(w, r, lost)
		pause(ctx, time.Duration(dice.IntN(200))*time.Millisecond)
	}
}

// heard records the response to a wish.
func (a *asker) heard(w *wish, r reply, lost bool) {
	var is map[string]any
	a.mu.Lock()
	defer a.mu.Unlock()
	w.unknown = w.unknown || lost
	switch {
	case r.err != nil:
		w.unknown = true
	case r.status == http.StatusCreated || r.status == http.StatusAccepted || r.status == http.StatusOK:
		_ = json.Unmarshal(r.body, &is)
		id, _ := is[w.kind.id()].(string)
		if id == "" {
			a.w.add("harness", "", "", "%s without an id: %s", w.job, r.body)
			return
		}
		w.ids = append(w.ids, id)
		if w.kind == ofRun {
			a.known = append(a.known, id)
		}
	case r.status == http.StatusConflict:
		w.refused = true
	default:
		a.w.add("harness", "", "", "%s: %d %s", w.job, r.status, r.body)
	}
}

func (a *asker) run(ctx context.Context, dice *rand.Rand) {
	by := slices.DeleteFunc(slices.Clone(a.jobs), func(j *job) bool { return !j.asked })
	j := by[dice.IntN(len(by))]
	body := map[string]any{}
	if dice.IntN(10) == 0 {
		body["respect_concurrency"] = false
	}
	a.wished(ctx, dice, &wish{job: j.name}, "/api/v1/job-definitions/"+j.name+"/runs", encode(body))
}

// publish publishes an event, whose dedupe key has the role of a run's idempotency key.
func (a *asker) publish(ctx context.Context, dice *rand.Rand) {
	w := &wish{job: "chain.told", kind: ofEvent, key: "told-" + uuidFrom(dice)}
	a.mu.Lock()
	a.wishes = append(a.wishes, w)
	a.mu.Unlock()
	for range 1 + dice.IntN(4)/3 {
		r, lost := a.settle(
			ctx,
			dice,
			http.MethodPost,
			"/api/v1/events",
			"",
			encode(map[string]any{"event_type": w.job, "dedupe_key": w.key, "payload": map[string]any{"n": dice.IntN(9)}}),
		)
		a.heard(w, r, lost)
	}
}

// some returns the id of a known run, usually a recent one.
func (a *asker) some(dice *rand.Rand) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.known)
	if n == 0 {
		return ""
	}
	return a.known[n-1-dice.IntN(min(n, 12))]
}

// deal acts as an operator who cancels a run or reassigns it, sometimes by force.
func (a *asker) deal(ctx context.Context, dice *rand.Rand, what string, force float64) {
	id := a.some(dice)
	if id == "" {
		return
	}
	r, _ := a.settle(
		ctx,
		dice,
		http.MethodPost,
		"/api/v1/job-runs/"+id+"/"+what,
		"",
		encode(map[string]any{"force": dice.Float64() < force, "reason": "chaos"}),
	)
	switch {
	case r.err != nil:
	case r.status == http.StatusOK || r.status == http.StatusAccepted:
		a.did(what)
	case r.status != http.StatusConflict:
		a.w.add("harness", "", "", "%s: %d %s", what, r.status, r.body)
	}
}

// again requests a rerun of a run.
func (a *asker) again(ctx context.Context, dice *rand.Rand) {
	if id := a.some(dice); id != "" {
		a.wished(ctx, dice, &wish{job: "rerun"}, "/api/v1/job-runs/"+id+"/rerun", encode(map[string]any{}))
	}
}

// workers returns the workers that Skald considers alive.
func (a *asker) workers(ctx context.Context, dice *rand.Rand) []string {
	r, _ := a.settle(ctx, dice, http.MethodGet, "/api/v1/workers?state=ACTIVE&state=DRAINING", "", nil)
	var is struct {
		Items []struct {
			ID string `json:"worker_id"`
		}
	}
	if r.err != nil || json.Unmarshal(r.body, &is) != nil {
		return nil
	}
	var ids []string
	for _, w := range is.Items {
		ids = append(ids, w.ID)
	}
	return ids
}

// tell sends an operator's request, which may be refused.
func (a *asker) tell(ctx context.Context, dice *rand.Rand, path string) bool {
	r, _ := a.settle(ctx, dice, http.MethodPost, path, "", encode(map[string]any{"reason": "chaos"}))
	return r.err == nil && r.status < 300
}
