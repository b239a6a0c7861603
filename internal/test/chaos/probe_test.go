package chaos

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/skald-saga/skald/internal/saga"
)

// probe samples every saga repeatedly while faults are injected. It finds violations that the final
// state doesn't show: a saga that no node would ever look at again (I1), a step backwards (I5), or
// a decreasing epoch (I6).
type probe struct {
	w     *world
	known map[string]sample
	looks int
}

// sample is the head of a saga at one point in time.
type sample struct {
	state   saga.State
	version int64
	epoch   int64
	logs    int
}

func newProbe(w *world) *probe {
	return &probe{w: w, known: map[string]sample{}}
}

// run takes samples until ctx ends.
func (p *probe) run(ctx context.Context) {
	for n := 0; pause(ctx, 300*time.Millisecond); n++ {
		if err := p.look(ctx); err != nil {
			continue // the database is down; the next sample will suffice
		}
		p.looks++
		if n%10 == 0 {
			p.metrics(ctx)
		}
	}
}

// look takes one sample of all sagas, in one snapshot.
func (p *probe) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	rows, err := p.w.db.sql().QueryContext(ctx, `
		SELECT s.id, s.state, s.version, s.lease_epoch,
		       (SELECT count(*) FROM saga.saga_step_logs l WHERE l.saga_id = s.id AND l.status <> 'RUNNING'),
		       s.completed_at IS NOT NULL OR s.suspended_at IS NOT NULL OR s.next_run_at IS NOT NULL
		       OR EXISTS (SELECT FROM saga.engine_nodes n WHERE n.id = s.lease_owner)
		  FROM saga.saga_states s`)
	if err != nil {
		return err
	}
	defer rows.Close()
	var seen []string
	samples := map[string]sample{}
	for rows.Next() {
		var id string
		var s sample
		var held bool
		if err := rows.Scan(&id, &s.state, &s.version, &s.epoch, &s.logs, &held); err != nil {
			return err
		}
		if !held {
			p.w.add("I1", id, "", "%s, with no owner and no time at which anybody looks at it", s.state)
		}
		seen = append(seen, id)
		samples[id] = s
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for id := range p.known {
		if _, still := samples[id]; !still {
			p.w.add("I0", id, "", "was in the database and is gone")
			delete(p.known, id)
		}
	}
	for _, id := range seen {
		p.compare(id, samples[id])
	}
	return nil
}

// compare checks a saga against its previous samples.
func (p *probe) compare(id string, now sample) {
	was, known := p.known[id]
	p.known[id] = now
	switch {
	case !known || was == now:
	case was.state.Terminal():
		p.w.add("I5", id, "", "changed after its end: %+v became %+v", was, now)
	case now.version <= was.version:
		p.w.add("I5", id, "", "changed without a new version: %+v became %+v", was, now)
	case now.epoch < was.epoch:
		p.w.add("I6", id, "", "the epoch sank: %+v became %+v", was, now)
	case now.logs < was.logs:
		p.w.add("I10", id, "", "step logs are gone: %+v became %+v", was, now)
	case was.state != now.state && !saga.Reachable(was.state, now.state):
		p.w.add("I5", id, "", "%s became %s", was.state, now.state)
	}
}

// metrics reads from every running node whether there are stuck sagas.
func (p *probe) metrics(ctx context.Context) {
	for _, n := range p.w.nodes {
		if n.alive() == nil {
			continue
		}
		r := p.w.request(ctx, n, http.MethodGet, "/metrics", "", nil)
		if r.err != nil || r.status == http.StatusServiceUnavailable {
			continue // stopped, killed, or still starting
		}
		value, found := metric(string(r.body), "skald_sagas_stuck")
		if !found || value != "0" {
			p.w.add("I1", "", "", "%s says skald_sagas_stuck %q", n.name, value)
		}
	}
}

// metric returns the value of a metric that has no labels.
func metric(text, name string) (value string, found bool) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}
