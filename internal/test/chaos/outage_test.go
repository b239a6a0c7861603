package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/skald-saga/skald/examples/order/shop"
)

// outage is a campaign. Sagas are ordered at a steady pace: first while all participants are
// healthy, then for length while four of them are unhealthy, each in its own way, and then, while
// they are healthy again, for as long as in the first phase.
type outage struct {
	*world
	sagas    int
	length   time.Duration
	ordering time.Duration // duration of all orders
	rules    gateRules

	ward    *ward
	watched []gateView // recorded by watch
	control []controlled
}

// controlled is the duration of one of this test's own calls, made alongside those of the nodes.
type controlled struct {
	at   time.Time
	took time.Duration
}

// TestAnOutage checks the promises of outage mode. OUTAGE_SAGAS and OUTAGE_SECONDS make it longer.
func TestAnOutage(t *testing.T) {
	t.Parallel()
	o := newOutage(t, number(t, "OUTAGE_SAGAS", 400), time.Duration(number(t, "OUTAGE_SECONDS", 8))*time.Second)
	ctx := t.Context()
	began := time.Now()
	looking, lookAway := context.WithCancel(ctx)
	defer lookAway()
	var watching sync.WaitGroup
	watching.Go(func() { o.watch(looking) })
	watching.Go(func() { o.measure(looking) })

	traded := make(chan struct{})
	go func() { o.trade(ctx); close(traded) }()
	pause(ctx, (o.ordering-o.length)/2)
	ill := o.ward.fallIll()
	o.log.write("participants: ill")
	pause(ctx, o.length/3)
	victim := o.nodes[1]
	o.log.write("%s: SIGKILL", victim.name)
	victim.end(syscall.SIGKILL)
	pause(ctx, 2*o.plan.lease)
	if err := victim.start(); err != nil {
		t.Fatal(err)
	}
	pause(ctx, time.Until(ill.Add(o.length)))
	well := o.ward.recover()
	o.log.write("participants: well")
	<-traded
	o.drained(ctx)
	o.opened(ctx)
	lookAway()
	watching.Wait()

	v, err := o.judge(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r := o.record(v, interval{ill, well})
	r.judge(func(rule, format string, args ...any) { o.add(rule, "", "", format, args...) })
	t.Logf("outage of %s: seed=%d sagas=%d ends %v calls=%d takeovers=%d violations=%d in %s\n%s", o.length, o.seed,
		len(v.sagas), v.ends, len(r.arrivals), v.takeovers, len(o.all()), time.Since(began).Round(time.Second), r.summary())
	o.report(v)
}

// number reads a whole number from an environment variable.
func number(t *testing.T, name string, or int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return or
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is not a number above 0", name, text)
	}
	return n
}

// pace is the maximum number of sagas ordered per second: two cores can start and complete this
// many.
const pace = 80

// newOutage returns a world whose participants are registered and whose nodes are ready.
func newOutage(t *testing.T, sagas int, length time.Duration) *outage {
	t.Helper()
	p := plan{lease: 2 * time.Second, nodes: 2, clients: 48, sagas: sagas, drain: 3 * time.Minute}
	o := &outage{world: newWorld(t, p, seed(t), binary(t, buildPlain)), sagas: sagas, length: length}
	o.ordering = max(length*5/3, time.Duration(sagas)*time.Second/pace)
	o.rules = gateRules{ratio: 0.4, least: 20, window: max(3*time.Second, length/6), canary: max(time.Second, length/12),
		start: 20, factor: 1.5}
	ctx := t.Context()
	db, err := ownDatabase(ctx, o.dir)
	o.db = db
	if err != nil {
		t.Fatal(err)
	}
	o.ward = &ward{dice: o.dice("ward")}
	o.before = o.ward.before
	o.open(db, shop.Config{Ledger: filepath.Join(o.dir, "ledger.jsonl"), Seed: o.seed})
	o.flows = outageFlows(o.shop.addr)
	if err := o.heal(ctx); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{theDead, theSlow, theHalf, theFlaky, theWell} {
		body := encode(map[string]any{
			"base_url": "http://" + o.shop.addr + "/" + name,
			"outage": map[string]any{
				"failure_ratio": o.rules.ratio, "min_calls": o.rules.least, "window_ms": o.rules.window.Milliseconds(),
				"canary_every_ms": o.rules.canary.Milliseconds(),
				"release":         map[string]any{"start_per_s": o.rules.start, "factor": o.rules.factor},
			},
		})
		r := o.request(ctx, o.nodes[0], http.MethodPut, "/api/v1/participants/"+name, "", body)
		if r.status != http.StatusOK {
			t.Fatalf("registering participant %s was answered %d: %s", name, r.status, r.body)
		}
	}
	if c := (&client{w: o.world, dice: o.dice("registrar")}); !c.register(ctx) {
		t.Fatal("the workflows cannot be registered")
	}
	return o
}

// outageFlows returns workflows. All but the last two call one participant that becomes unhealthy;
// of the last two, one calls all of these participants and the other none.
func outageFlows(addr string) (flows []flow) {
	for _, participants := range [][]string{
		{theWell, theDead}, {theWell, theSlow, theWell}, {theHalf, theWell}, {theFlaky, theWell},
		{theDead, theSlow, theHalf, theFlaky}, {theWell, theWell},
	} {
		f := flow{name: "outage-" + fmt.Sprint(len(flows)), attempts: 4, undos: 60}
		var steps []map[string]any
		for i, p := range participants {
			name := stepName(i)
			url := "http://" + addr + "/" + p + "/steps/" + name
			f.steps = append(f.steps, name)
			steps = append(steps, map[string]any{
				"name": name, "timeout_ms": patient.Milliseconds(),
				"action":       map[string]any{"http": map[string]any{"url": url}},
				"compensation": map[string]any{"http": map[string]any{"url": url + "/undo"}},
			})
		}
		retry := func(attempts int) map[string]any {
			return map[string]any{
				"max_attempts": attempts, "initial_interval_ms": 300, "max_interval_ms": 2000, "multiplier": 2, "jitter": 0.5,
			}
		}
		f.definition = encode(map[string]any{
			"name": f.name, "steps": steps, "retry": retry(f.attempts), "compensation_retry": retry(f.undos),
		})
		flows = append(flows, f)
	}
	return flows
}

// sound returns the workflow that uses only the participant that is always healthy.
func (o *outage) sound() *flow { return &o.flows[len(o.flows)-1] }

// newOrder generates an order. One in twenty will be canceled, and one in twenty has a deadline,
// which most of those sagas pass only if they wait at a gate.
func (o *outage) newOrder(r *rand.Rand) *order {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := &order{marker: fmt.Sprintf("order-%05d", len(o.orders)), flow: &o.flows[r.IntN(len(o.flows))]}
	n.key = "create-" + n.marker
	n.payload = encode(map[string]any{"marker": n.marker, "amount": r.IntN(5000)})
	request := map[string]any{"workflow_name": n.flow.name, "payload": rawJSON(n.payload), "correlation_id": n.marker}
	switch r.IntN(20) {
	case 0:
		n.cancel = true
	case 1:
		n.timeoutMS = 1500 + r.IntN(int(o.length.Milliseconds()))
		request["timeout_ms"] = n.timeoutMS
	}
	n.body = encode(request)
	o.orders = append(o.orders, n)
	return n
}

// trade orders all sagas at a steady pace, or more slowly on a machine that can't keep up.
func (o *outage) trade(ctx context.Context) {
	began, each := time.Now(), o.ordering/time.Duration(o.sagas)
	var next atomic.Int64
	var clients sync.WaitGroup
	for i := range o.plan.clients {
		c := &client{w: o.world, dice: o.dice(fmt.Sprintf("client %d", i))}
		clients.Go(func() {
			for {
				n := next.Add(1)
				if n > int64(o.sagas) || !pause(ctx, time.Until(began.Add(time.Duration(n)*each))) {
					return
				}
				c.serve(ctx, o.newOrder(c.dice))
			}
		})
	}
	clients.Wait()
}

// watch records every change of a gate from the database.
func (o *outage) watch(ctx context.Context) {
	epochs := map[string]int64{}
	for pause(ctx, slack/2) {
		rows, err := o.db.sql().QueryContext(ctx, `
			SELECT name, epoch, state, since, rate, coalesce(grown_at, since),
			       (SELECT count(*) FROM saga.parked w WHERE w.participant = name AND w.granted_at IS NULL)
			  FROM saga.participants`)
		if err != nil {
			continue
		}
		for rows.Next() {
			var g gateView
			var epoch int64
			err := rows.Scan(&g.participant, &epoch, &g.state, &g.since, &g.rate, &g.at, &g.waits)
			if err == nil && epochs[g.participant] != epoch {
				epochs[g.participant] = epoch
				o.watched = append(o.watched, g)
			}
		}
		_ = errors.Join(rows.Err(), rows.Close()) // the next look sees what this one has missed
	}
}

// measure makes calls like those of the nodes, to measure the current speed of the machine.
func (o *outage) measure(ctx context.Context) {
	for pause(ctx, 50*time.Millisecond) {
		began := time.Now()
		res, err := o.http.Get("http://" + o.shop.addr + "/" + theWell + "/")
		if err != nil {
			continue
		}
		res.Body.Close()
		var one int
		if o.db.sql().QueryRowContext(ctx, `SELECT 1`).Scan(&one) == nil {
			o.control = append(o.control, controlled{began, time.Since(began)})
		}
	}
}

// opened waits until all gates are open.
func (o *outage) opened(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, o.plan.drain)
	defer cancel()
	for {
		var closed int
		err := o.db.sql().QueryRowContext(ctx, `SELECT count(*) FROM saga.participants WHERE state <> 'OPEN'`).Scan(&closed)
		if err == nil && closed == 0 {
			pause(ctx, 2*slack) // until watch has seen the change
			return
		}
		if !pause(ctx, slack) {
			return // the judge will report gates that are still closed
		}
	}
}

// record collects the data that the judge of outages needs.
func (o *outage) record(v *verdict, ill interval) *outageRecord {
	r := &outageRecord{rules: o.rules, ill: ill, arrivals: o.ward.received(), gates: o.watched}
	slices.SortStableFunc(r.arrivals, func(a, b arrival) int { return a.at.Compare(b.at) })
	period := func(at time.Time) *speeds {
		switch {
		case at.After(ill.from) && at.Before(ill.to):
			return &r.during
		case at.Before(ill.from.Add(-time.Second)):
			return &r.before
		}
		return &speeds{}
	}
	for _, s := range v.sagas {
		if s.flow.name == o.sound().name && s.cause == "" && s.completed != nil {
			p := period(s.created)
			p.sagas = append(p.sagas, s.completed.Sub(s.created))
		}
	}
	for _, c := range o.control {
		p := period(c.at)
		p.control = append(p.control, c.took)
	}
	return r
}
