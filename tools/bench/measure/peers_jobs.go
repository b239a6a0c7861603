package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
)

// jobLevel is a row about job runs that exist and are worked off, by workers that do nothing.
type jobLevel struct {
	key, title string
	jobs       int
	workers    int // of Skald, over HTTP
	concurrent int // jobs that River runs at the same time, in its own process
	slots      int // that a worker of Skald fills with each call
}

var jobLevels = []jobLevel{
	{"jobs-1", "job runs, one by one, 32 at a time", 15_000, singleWorkers, singleWorkers, 1},
	{"jobs-100", "job runs, batches of 100, 4 at a time", 60_000, batchWorkers, batchWorkers * runsOfClaim,
		runsOfClaim},
}

// riverCooldown is the least time between two fetches of River. Its default of 100 ms would limit
// 32 workers to 320 jobs a second.
const riverCooldown = "2ms"

// jobTurn measures Skald, whose workers report runs and get the next ones in one call over HTTP.
func (p *peersRun) jobTurn(ctx context.Context, l jobLevel) (t turn, err error) {
	r := p.jobs
	var epoch int64
	if r.definition != "" {
		if err := r.db.pool.QueryRowContext(ctx, `SELECT epoch FROM jobs.leader`).Scan(&epoch); err != nil {
			return turn{}, fmt.Errorf("read the epoch of the previous leader: %w", err)
		}
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	if err := r.open(ctx, epoch); err != nil {
		return turn{}, err
	}
	if r.definition == "" {
		if err := r.define(ctx); err != nil {
			return turn{}, err
		}
	}
	n := l.jobs / p.cfg.JobsDivisor
	before, err := r.filled(ctx, n)
	if err != nil {
		return turn{}, err
	}
	took, err := r.take(ctx, n, l.workers, r.exchanging(l.slots))
	if err == nil {
		err = r.ended(ctx, before, n)
	}
	return turn{orders: n, perSecond: float64(n) / took.Seconds()}, err
}

// riverTurn measures River, whose program counts what its table says.
func (p *peersRun) riverTurn(ctx context.Context, l jobLevel) (turn, error) {
	if p.riverURL == "" {
		own, err := makeDatabase(ctx, p.cfg.DatabaseURL, "river")
		if err != nil {
			return turn{}, err
		}
		p.riverURL = own.String()
	}
	n := l.jobs / p.cfg.JobsDivisor
	cmd := exec.CommandContext(ctx, filepath.Join(p.cfg.Programs, "river"), "-database-url", p.riverURL,
		"-jobs", fmt.Sprint(n), "-workers", fmt.Sprint(l.concurrent), "-fetch-cooldown", riverCooldown)
	var stdout, stderr bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = environment(), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return turn{}, fmt.Errorf("run River: %w: %s", err, stderr.Bytes())
	}
	var result struct {
		Jobs    int
		Seconds float64
	}
	if err := json.Unmarshal(stdout.Bytes(), &result); err != nil {
		return turn{}, fmt.Errorf("read the result of River: %w", err)
	}
	return turn{orders: result.Jobs, perSecond: float64(result.Jobs) / result.Seconds}, nil
}
