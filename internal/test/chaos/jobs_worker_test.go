package chaos

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// workerEnv names the variable that turns the test binary into a worker: its value is a
// workerConfig as JSON.
const workerEnv = "CHAOS_JOB_WORKER"

// workerConfig is the configuration that a worker process gets when it starts.
type workerConfig struct {
	Name    string
	Nodes   []string // base URLs
	Journal string
	Seed    uint64
	Runs    int           // runs at once
	Confirm time.Duration // how long Skald waits for the confirmation of a run in doubt

	Exchanges bool // it reports runs and gets the next ones in a single call
}

// jobWorker is a worker as a user might write one: it speaks the protocol without a library, tracks
// its leases with its own monotonic clock, and records what it does. It is a separate process, so
// that it can be killed and stopped.
type jobWorker struct {
	cfg     workerConfig
	journal *journal
	http    *http.Client
	orders  *orders

	diceMu sync.Mutex
	dice   *rand.Rand // guarded by diceMu

	mu   sync.Mutex
	self *registration // guarded by mu: the current registration; never nil once it runs
}

// registration is the worker under one id; after a 410 it gets a new id.
type registration struct {
	ctx  context.Context
	gone context.CancelFunc
	id   string
	beat time.Duration
	work sync.WaitGroup // executions

	mu   sync.Mutex
	held map[string]*execution // guarded by mu, by fence
}

// serveAsWorker runs a worker until its standard input ends, which happens when the test ends, or
// until it is killed.
func serveAsWorker(text string) int {
	w := &jobWorker{
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 5 * time.Second}},
	}
	err := json.Unmarshal([]byte(text), &w.cfg)
	if err == nil {
		w.journal, err = openJournal(w.cfg.Journal)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	w.dice = rand.New(rand.NewPCG(w.cfg.Seed, 1))
	w.orders = &orders{}
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			w.orders.take(lines.Text())
		}
		os.Exit(0)
	}()
	for {
		w.live()
	}
}

// live handles one registration from its start to its 410.
func (w *jobWorker) live() {
	r := w.register()
	w.mu.Lock()
	w.self = r
	w.mu.Unlock()
	var loops sync.WaitGroup
	loops.Go(func() { w.beatOn(r) })
	loops.Go(func() { w.claimOn(r) })
	loops.Wait()
	r.gone()
}

func (w *jobWorker) chance(share float64) bool {
	w.diceMu.Lock()
	defer w.diceMu.Unlock()
	return w.dice.Float64() < share
}

// between returns a random duration from least to most.
func (w *jobWorker) between(least, most time.Duration) time.Duration {
	w.diceMu.Lock()
	defer w.diceMu.Unlock()
	return least + time.Duration(w.dice.Int64N(int64(most-least)+1))
}

// heard is a response. Status 0 means that none arrived, so it is unknown whether the call was
// executed.
type heard struct {
	status int
	body   []byte
}

func (h heard) code() string {
	var p struct{ Code string }
	_ = json.Unmarshal(h.body, &p)
	return p.Code
}

func (h heard) into(v any) bool { return h.status < 300 && json.Unmarshal(h.body, v) == nil }

// unknown reports whether the call must be repeated.
func (h heard) unknown() bool {
	return h.status == 0 || h.status >= 500 || h.status == http.StatusTooManyRequests
}

// call makes one call to one of the nodes.
func (w *jobWorker) call(ctx context.Context, path string, body any, within time.Duration) heard {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	w.diceMu.Lock()
	node := w.cfg.Nodes[w.dice.IntN(len(w.cfg.Nodes))]
	w.diceMu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, node+"/api/v1"+path, bytes.NewReader(encode(body)))
	if err != nil {
		return heard{}
	}
	req.GetBody = nil // net/http must not repeat it
	req.Header.Set("Content-Type", "application/json")
	res, err := w.http.Do(req)
	if err != nil {
		return heard{}
	}
	defer res.Body.Close()
	h := heard{status: res.StatusCode}
	if h.body, err = io.ReadAll(res.Body); err != nil {
		return heard{}
	}
	known := []int{http.StatusConflict, http.StatusGone, http.StatusServiceUnavailable, http.StatusTooManyRequests}
	if h.status >= 300 && !slices.Contains(known, h.status) {
		w.journal.write(entry{Kind: didMeet, Call: path, Status: h.status, Text: string(h.body)})
	}
	return h
}

// insist repeats a call until it is answered or ctx ends.
func (w *jobWorker) insist(ctx context.Context, path string, body any) heard {
	for ctx.Err() == nil {
		if h := w.call(ctx, path, body, 1500*time.Millisecond); !h.unknown() {
			return h
		}
		pause(ctx, w.between(20*time.Millisecond, 100*time.Millisecond))
	}
	return heard{}
}

func (w *jobWorker) register() *registration {
	var is struct {
		ID   string `json:"worker_id"`
		Beat int64  `json:"heartbeat_interval_ms"`
	}
	for !w.insist(context.Background(), "/workers", map[string]any{
		"name":     w.cfg.Name,
		"pid":      os.Getpid(),
		"queues":   []string{"default", "slow"},
		"max_runs": w.cfg.Runs,
		"labels":   map[string]string{"kind": "chaos"},
	}).into(&is) {
		pause(context.Background(), 100*time.Millisecond)
	}
	w.journal.write(entry{Kind: didRegister, Worker: is.ID})
	r := &registration{id: is.ID, beat: time.Duration(is.Beat) * time.Millisecond, held: map[string]*execution{}}
	r.ctx, r.gone = context.WithCancel(context.Background())
	return r
}

func (r *registration) executions() []*execution {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*execution
	for _, x := range r.held {
		all = append(all, x)
	}
	return all
}

// beatOn sends heartbeats until the worker is gone.
func (w *jobWorker) beatOn(r *registration) {
	var beats sync.WaitGroup
	defer beats.Wait()
	for seq := 1; r.ctx.Err() == nil; seq++ {
		beats.Go(func() { w.beat(r, seq) }) // a heartbeat that hangs must not delay the next one
		pause(r.ctx, r.beat)
	}
}

func (w *jobWorker) beat(r *registration, seq int) {
	running := []map[string]any{}
	told := map[string]*execution{}
	for _, x := range r.executions() {
		if x.deaf.Load() {
			continue
		}
		running = append(
			running,
			map[string]any{
				"run_id":       x.run.ID,
				"attempt":      x.run.Attempt,
				"lease_token":  x.run.Token,
				"leader_epoch": x.run.Epoch,
			},
		)
		told[x.run.ID] = x
	}
	sent := time.Now()
	w.orders.during(atBeating, w)
	h := w.call(
		r.ctx,
		"/workers/"+r.id+"/heartbeat",
		map[string]any{"seq": seq, "running": running},
		1500*time.Millisecond,
	)
	if h.status == http.StatusGone {
		r.gone()
		return
	}
	var said struct {
		Lease  int64 `json:"lease_ms"`
		Leases []struct {
			Run    string `json:"run_id"`
			OK     bool
			Cancel bool `json:"cancel_requested"`
			Reason string
		}
	}
	if !h.into(&said) {
		return
	}
	for _, l := range said.Leases {
		x := told[l.Run]
		switch {
		case x == nil:
		case !l.OK:
			x.stop("lost: " + l.Reason)
		default:
			x.renew(sent.Add(time.Duration(said.Lease) * time.Millisecond))
			if l.Cancel {
				x.cancel()
			}
		}
	}
}

// claimed is a run in the response to a claim.
type claimed struct {
	ID      string `json:"run_id"`
	Job     string `json:"definition"`
	Args    manner `json:"args"`
	Attempt int    `json:"attempt"`
	Token   string `json:"lease_token"`
	Epoch   int64  `json:"leader_epoch"`
	Fencing string `json:"fencing_token"`
	State   string `json:"state"`
	Timeout int64  `json:"timeout_ms"`
	Key     string `json:"concurrency_key"`
}

// claimOn claims and executes runs until the worker is gone. A claim whose response was lost is
// either repeated or forgotten, in which case its runs stay assigned to the worker.
func (w *jobWorker) claimOn(r *registration) {
	defer r.work.Wait()
	for r.ctx.Err() == nil {
		r.mu.Lock()
		free := w.cfg.Runs - len(r.held)
		r.mu.Unlock()
		if free < 1 {
			pause(r.ctx, 20*time.Millisecond)
			continue
		}
		call, ask := "claim", map[string]any{"slots": free, "wait_ms": 1000, "claim_id": uuid.NewString()}
		if w.cfg.Exchanges {
			call, ask["outcomes"] = "exchange", []any{}
		} else {
			ask["start"] = w.chance(0.25)
		}
		var got granted
		sent, since, again := time.Now(), monotonic(), true
		for again && r.ctx.Err() == nil {
			sent, since = time.Now(), monotonic()
			w.orders.during(atClaiming, w)
			if w.cfg.Exchanges { // an exchange also starts the runs that it returns
				w.orders.during(atStarting, w)
			}
			h := w.call(r.ctx, "/workers/"+r.id+"/"+call, ask, 2500*time.Millisecond)
			if h.status == http.StatusGone {
				r.gone()
				return
			}
			h.into(&got)
			if again = h.unknown() && w.chance(0.9); again {
				pause(r.ctx, w.between(20*time.Millisecond, 150*time.Millisecond))
			}
		}
		w.begin(r, &got, sent, since)
	}
}

// manner is the behavior of a job, passed as the arguments of its runs.
type manner struct {
	Least    int64   // least duration of the work in ms
	Most     int64   // greatest duration of the work in ms
	Fail     float64 // share of executions that fail and may be retried
	Perma    float64 // share that fail permanently
	Release  float64 // share of executions that are released
	Rude     float64 // share that ignore time limits and cancellation
	Logs     int     // number of log chunks
	EmitType string  // type of an event that a success emits
	EmitJob  string  // job of a run that a success emits
}

func cutCode(code string) string { return cmp.Or(strings.TrimPrefix(code, "JOB_"), "-") }
