// Package joblog moves the logs of job runs from the database to the log store, reads them there,
// and deletes expired runs (J-39 to J-41).
//
// A log is uploaded and read back before one transaction sets its reference and deletes its chunks
// (S20, J9). A crash or failure at any point leaves the log where it was, or in both places until
// the next round. Any number of nodes may move logs concurrently; the result is the same.
package joblog

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/logstore"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

const (
	// batch is the number of runs that are read at once, for moving logs and for purging.
	batch = 200
	// giveUp is the number of consecutive failures that ends a round, because then the cause is the
	// store and not a single log.
	giveUp = 3
	// setAside is how long a log that could not be moved is skipped.
	setAside = time.Hour
)

// Config configures a Mover. Chunks, Offloading, Settings, Log and Now are required.
type Config struct {
	Store      *logstore.Store // nil: logs stay in the database until their runs are purged
	Chunks     Chunks
	Offloading jobrun.Offloading
	Settings   func(context.Context) (jobrun.Settings, error)
	Keys       *envelope.Keyring // seals logs in the store if encryption is configured; nil: logs are not sealed
	Log        *slog.Logger
	Now        func() time.Time
	// Purging deletes expired data by calling do, and records what was deleted. If it is nil, do is
	// called directly.
	Purging func(ctx context.Context, do func(context.Context))
}

// Round is the result of one round.
type Round struct {
	Moved  int   // logs
	Bytes  int64 // their size in the database
	Failed int   // logs that could not be moved
	Purged int   // runs
	Erased int   // runs whose stored logs were deleted
}

// Mover moves logs, one round at a time. It is safe for concurrent use.
type Mover struct {
	cfg   Config
	mu    sync.Mutex              // held during a round
	aside map[uuid.UUID]time.Time // guarded by mu; when to retry logs that could not be moved
}

// NewMover returns a Mover.
func NewMover(cfg Config) *Mover {
	if cfg.Purging == nil {
		cfg.Purging = func(ctx context.Context, do func(context.Context)) { do(ctx) }
	}
	return &Mover{cfg: cfg, aside: map[uuid.UUID]time.Time{}}
}

// Once moves the logs that are old enough (log_retention_days_db). It then deletes expired runs
// (run_retention_days), and the stored logs of these runs and of erased runs. It ends when ctx
// ends, when the database is unavailable, or when nothing is left to do. A log that cannot be moved
// is counted in the Round and logged, but is not returned as an error. Once waits for a round in
// progress.
func (m *Mover) Once(ctx context.Context) (r Round, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	settings, err := m.cfg.Settings(ctx)
	if err != nil {
		return r, err
	}
	if m.cfg.Store != nil {
		if err := m.move(ctx, m.cfg.Now().Add(-days(settings, jobrun.LogRetentionDays)), &r); err != nil {
			return r, err
		}
	}
	m.cfg.Purging(ctx, func(ctx context.Context) {
		err = m.purge(ctx, m.cfg.Now().Add(-days(settings, jobrun.RunRetentionDays)), &r)
	})
	if err != nil {
		return r, err
	}
	return r, m.remove(ctx, &r)
}

func days(s jobrun.Settings, name string) time.Duration {
	return time.Duration(s.Number(name) * float64(24*time.Hour))
}

func (m *Mover) move(ctx context.Context, before time.Time, round *Round) error {
	now := m.cfg.Now()
	for id, until := range m.aside {
		if !now.Before(until) {
			delete(m.aside, id)
		}
	}
	failures := 0
	for {
		runs, err := m.cfg.Offloading.Offloadable(ctx, before, batch+len(m.aside))
		if err != nil {
			return err
		}
		rand.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] }) // see Run
		tried := 0
		for i := range runs {
			run := &runs[i]
			if _, left := m.aside[run.ID]; left {
				continue
			}
			tried++
			err := m.moveOne(ctx, run)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err == nil:
				round.Moved++
				round.Bytes += run.LogBytes
				failures = 0
				continue
			case errors.Is(err, errChanged):
				m.aside[run.ID] = now.Add(setAside)
				continue
			}
			round.Failed++
			m.aside[run.ID] = now.Add(setAside)
			m.cfg.Log.WarnContext(ctx, "cannot move the log of a job run; it stays in the database", slog.String("job_run_id", run.ID.String()), slog.Any("error", err))
			if failures++; failures == giveUp {
				clear(m.aside) // the store is the cause of the failures
				return nil
			}
		}
		if tried < batch {
			return nil
		}
	}
}

// moveOne moves the log of one run. An upload that turns out to be useless is deleted only if it is
// sealed. An unsealed upload has the same name as another node's upload of the same log, which may
// be about to be committed.
func (m *Mover) moveOne(ctx context.Context, run *jobrun.Run) error {
	log := newSource(ctx, m.cfg.Chunks, m.cfg.Keys, run)
	object, err := m.cfg.Store.Put(ctx, logstore.Name{Tenant: run.TenantID, Run: run.ID, Attempt: max(run.Attempt, 1),
		Created: run.CreatedAt}, log)
	if err != nil {
		return err
	}
	if err := failpoint.Hit(failpoint.LogBeforeTx); err != nil {
		return err
	}
	done, err := m.cfg.Offloading.Offloaded(ctx, run.TenantID, run.ID, object.Ref, object.SHA256[:], log.chunks, log.bytes)
	if err == nil && !done {
		err = errChanged
		if log.sealer.Seals() {
			err = errors.Join(err, m.cfg.Store.Delete(ctx, object.Ref))
		}
	}
	if err == nil {
		err = failpoint.Hit(failpoint.LogAfterTx)
	}
	return err
}

// purge deletes rows before their stored logs, so that a reference always points to an existing
// log.
func (m *Mover) purge(ctx context.Context, before time.Time, round *Round) error {
	for {
		deleted, err := m.cfg.Offloading.Purge(ctx, before, batch)
		if err != nil {
			return err
		}
		round.Purged += deleted
		if deleted < batch {
			return nil
		}
	}
}

// remove deletes the stored logs of purged and erased runs. Each deletion is recorded only
// afterwards, so that it is repeated after a crash in between.
func (m *Mover) remove(ctx context.Context, round *Round) error {
	for failures := 0; ; {
		due, err := m.cfg.Offloading.Removals(ctx, batch)
		if err != nil {
			return err
		}
		left := 0
		for i := range due {
			r := &due[i]
			if m.cfg.Store == nil && r.Moved {
				left++ // there was a store, and there may be one again
				continue
			}
			if err := m.clear(ctx, r); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				m.cfg.Log.WarnContext(ctx, "cannot delete the log of an erased or purged job run from the log store",
					slog.String("job_run_id", r.RunID.String()), slog.Any("error", err))
				if failures++; failures == giveUp {
					return nil // the store is the cause of the failures
				}
				left++
				continue
			}
			if err := m.cfg.Offloading.Removed(ctx, *r); err != nil {
				return err
			}
			round.Erased++
		}
		if left > 0 || len(due) < batch {
			return nil // the other removals are due in the next round
		}
	}
}

func (m *Mover) clear(ctx context.Context, r *jobrun.LogRemoval) error {
	if m.cfg.Store == nil {
		return nil
	}
	return m.cfg.Store.Clear(ctx, logstore.Name{Tenant: r.TenantID, Run: r.RunID, Created: r.Created})
}
