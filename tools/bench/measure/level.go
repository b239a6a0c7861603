package measure

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// levelSpec describes one level.
type levelSpec struct {
	flow    workflow
	mode    Mode
	clients int
	payload int // bytes; 0: about 100
}

// snapshot contains the totals that the machine and the database have used at one moment.
type snapshot struct {
	at                          time.Time
	skald, participant, machine time.Duration
	postgres                    time.Duration // 0: not on this machine
	database                    counters
}

// runLevel warms up, measures one level and checks every saga of it.
func (r *run) runLevel(ctx context.Context, spec levelSpec) (Level, error) {
	if r.cfg.Warmup > 0 {
		warm, err := r.runLoad(ctx, spec, r.cfg.Warmup)
		if err != nil {
			return Level{}, fmt.Errorf("warm up: %w", err)
		}
		// No saga of the warm-up may still be running when counting begins.
		if _, err := r.settle(ctx, spec, warm.Accepted, nil); err != nil {
			return Level{}, fmt.Errorf("warm up: %w", err)
		}
	}
	before, err := r.snapshot(ctx)
	if err != nil {
		return Level{}, err
	}
	load, err := r.runLoad(ctx, spec, r.cfg.Duration)
	if err != nil {
		return Level{}, err
	}
	var after snapshot
	out, err := r.settle(ctx, spec, load.Accepted, func() (err error) {
		after, err = r.snapshot(ctx)
		return err
	})
	if err != nil {
		return Level{}, err
	}
	size, err := hostProc.memory(r.server.pid())
	if err != nil {
		return Level{}, err
	}
	return newLevel(spec, load, out, before, after, size), nil
}

// settle waits for the sagas to end, calls ended, and checks them.
func (r *run) settle(ctx context.Context, spec levelSpec, ids []string, ended func() error) (outcome, error) {
	drain, cancel := context.WithTimeout(ctx, r.cfg.Drain)
	defer cancel()
	waited := r.db.awaitEnded(drain, ids, r.server.ended)
	if err := ctx.Err(); err != nil {
		return outcome{}, fmt.Errorf("interrupted: %w", err)
	}
	if waited == nil && ended != nil {
		waited = ended()
	}
	out, err := r.db.outcome(ctx, ids)
	if err == nil {
		err = out.check(spec.flow, len(ids))
	}
	return out, errors.Join(waited, err)
}

// snapshot reads all totals, as simultaneously as possible.
func (r *run) snapshot(ctx context.Context) (snapshot, error) {
	var s snapshot
	var err error
	if s.database, err = r.db.counters(ctx); err != nil {
		return snapshot{}, err
	}
	skald, err1 := hostProc.process(r.server.pid())
	participant, err2 := hostProc.process(r.participant.pid())
	if r.db.postmaster != 0 {
		s.postgres, err = hostProc.familyCPU(r.db.postmaster)
	}
	machine, err3 := hostProc.busy()
	if err := errors.Join(err, err1, err2, err3); err != nil {
		return snapshot{}, err
	}
	s.skald, s.participant, s.machine = skald.cpu, participant.cpu, machine
	s.at = time.Now()
	return s, nil
}

// newLevel turns totals into rates.
func newLevel(spec levelSpec, load LoadResult, out outcome, before, after snapshot, size memory) Level {
	sagas := len(load.Accepted)
	level := Level{
		Workflow:   spec.flow.name,
		Mode:       spec.mode,
		Clients:    spec.clients,
		Sagas:      sagas,
		PerSecond:  float64(sagas) / out.lastEnd.Sub(load.StartedAt).Seconds(),
		RSS:        size.now,
		PeakRSS:    size.peak,
		WALPerSaga: (after.database.wal - before.database.wal) / int64(sagas),
		Errors:     load.Errors,
		FirstError: load.FirstError,
	}
	switch spec.mode {
	case Submit:
		level.Submit, level.EndToEnd = &load.Answers, summarize(out.endToEnd)
	case Wait:
		level.EndToEnd = load.Answers
	}
	if updates := after.database.updates - before.database.updates; updates > 0 {
		level.HOTRatio = float64(after.database.hot-before.database.hot) / float64(updates)
	}

	elapsed := after.at.Sub(before.at).Seconds()
	cores := func(d time.Duration) float64 { return d.Seconds() / elapsed }
	level.Cores = Cores{
		Skald:       cores(after.skald - before.skald),
		Participant: cores(after.participant - before.participant),
		Load:        cores(load.CPU),
	}
	known := level.Cores.Skald + level.Cores.Participant + level.Cores.Load
	if before.postgres > 0 {
		postgres := cores(after.postgres - before.postgres)
		level.Cores.Postgres = &postgres
		known += postgres
	}
	level.CPUPerSaga = Millis(known * elapsed * 1000 / float64(sagas))
	// The totals are counted in ticks, so that their difference can be negative.
	level.Cores.Other = max(0, cores(after.machine-before.machine)-known)
	return level
}

// LoadResult is the result of a load generator. Its JSON form is sent from the generator's
// process to the run.
type LoadResult struct {
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"` // when the last response had arrived
	// Accepted contains the id of every saga that the server accepted; for OrderRequests, that of
	// every order whose response was as wanted.
	Accepted []string `json:"accepted"`
	// Answers times the requests that were answered as expected.
	Answers Latency `json:"answers"`
	// Errors counts everything else: no answer, another status code, or a saga
	// that had not ended as expected when a waiting client got it.
	Errors     int    `json:"errors"`
	FirstError string `json:"first_error,omitempty"`
	// CPU is the time used by the whole generator process.
	CPU time.Duration `json:"cpu_ns"`
}
